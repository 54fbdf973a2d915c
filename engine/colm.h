/* colm: grow language models by chains, on any Vulkan device. The only public header of libcolm.
 *
 * Tiers: describe an experiment (colm_spec), see what it would cost (colm_plan), run it (colm_run), read what was
 * measured (colm_db). Objects are opaque; destructors accept NULL. Nothing here prints, exits or touches errno. */
#ifndef COLM_H
#define COLM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call came to. Exit codes of the command line are these numbers. */
typedef enum {
    COLM_OK = 0,
    COLM_E_INPUT = 1,       /* the caller's text, numbers or files are wrong: fix them and call again */
    COLM_E_USAGE = 2,       /* the command line is wrong */
    COLM_E_IO = 3,          /* the operating system refused to read or write */
    COLM_E_MEMORY = 4,      /* host or device memory ran out */
    COLM_E_NO_DEVICE = 5,   /* no Vulkan loader, driver or matching device */
    COLM_E_DEVICE = 6,      /* the device failed or was lost */
    COLM_E_CHECK = 7,       /* a result contradicts what must hold (retention, NaN loss, corrupt checkpoint) */
    COLM_E_INTERRUPTED = 8, /* asked to stop */
    COLM_E_BUG = 9          /* colm is wrong; please report it */
} colm_status;

/* One line that says what, where, which value, what was expected and what to do. Owned by the caller. */
typedef struct {
    colm_status code;
    char text[1024];
} colm_err;

#ifdef __cplusplus
}
#endif
#endif
