/* Preloaded under the sanitizers: libraries stay in memory until the end, so that a leak's report can name the
 * driver that it belongs to. leaks.txt goes by those names. */
__attribute__((visibility("default"))) int dlclose(void *handle);
int dlclose(void *handle) {
    (void)handle;
    return 0;
}
