#include "engine/train/scale.h"

loss_scale loss_scale_first(void) {
    return (loss_scale){.factor = LOSS_SCALE_FIRST};
}

static loss_scale times(loss_scale s, double by) {
    double f = s.factor * by;
    s.factor = f < LOSS_SCALE_LEAST ? LOSS_SCALE_LEAST : f > LOSS_SCALE_MOST ? LOSS_SCALE_MOST : f;
    s.good = 0;
    return s;
}

loss_scale loss_scale_after(loss_scale s, bool skipped) {
    if (skipped) {
        s.skipped++;
        s.in_row++;
        return times(s, 0.5);
    }
    s.applied++;
    s.in_row = 0;
    return ++s.good == LOSS_SCALE_SERIES ? times(s, 2) : s;
}
