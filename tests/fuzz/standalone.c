/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main() of a fuzzer built without libFuzzer: runs it once for each file given.
 * So every compiler, and valgrind, can go over the committed corpus.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return 1;
    }
    uint8_t *data = NULL;
    size_t size = 0, capacity = 0, got;
    do {
        if (size == capacity) {
            capacity = capacity ? 2 * capacity : 4096;
            uint8_t *larger = realloc(data, capacity);
            if (!larger) {
                perror(path);
                free(data);
                fclose(file);
                return 1;
            }
            data = larger;
        }
        got = fread(data + size, 1, capacity - size, file);
        size += got;
    } while (got);
    int failed = ferror(file);
    fclose(file);
    /* A block of just that size, so that a checker sees a read past its end. */
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        failed = 1;
    if (!failed) {
        for (size_t i = 0; i < size; i++)
            exact[i] = data[i];
        LLVMFuzzerTestOneInput(exact, size);
    }
    free(exact);
    free(data);
    return failed;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (run_file(argv[i]))
            return EXIT_FAILURE;
    printf("%d inputs\n", argc - 1);
    return EXIT_SUCCESS;
}
