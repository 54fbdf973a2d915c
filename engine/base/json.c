#include "engine/base/json.h"
