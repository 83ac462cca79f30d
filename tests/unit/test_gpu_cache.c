/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of kernels on disk, and where a device's code comes from. */
#define _POSIX_C_SOURCE 200809L
#include "unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/gpu/cache.h"
#include "backends/gpu/code.h"
#include "backends/gpu/embedded.h"

/* ---------------------------------------------------------------- folders */

static char folder[64];

static int new_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/ckv-test-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int old_folder(void **state)
{
    char command[256];
    (void)state;
    snprintf(command, sizeof command, "chmod -R u+rwx '%s' && rm -r '%s'", folder, folder);
    return system(command);
}

/* The one file in `path`, "" when there is none; how many there are. */
static int files_in(const char *path, char *name, size_t size)
{
    DIR *d = opendir(path);
    int count = 0;
    name[0] = '\0';
    for (struct dirent *e = d == NULL ? NULL : readdir(d); e != NULL; e = readdir(d))
        if (e->d_name[0] != '.') {
            snprintf(name, size, "%s/%s", path, e->d_name);
            count++;
        }
    if (d != NULL)
        closedir(d);
    return count;
}

static void write_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static size_t read_file(const char *path, unsigned char *data, size_t room)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(data, 1, room, file);
    fclose(file);
    return size;
}

static void assert_there(const char *key, const char *wanted)
{
    void *data;
    size_t size;
    assert_int_equal(ckv_cache_load(folder, key, strlen(key), &data, &size), 1);
    assert_int_equal(size, strlen(wanted));
    assert_memory_equal(data, wanted, size);
    free(data);
}

static int is_there(const char *key)
{
    void *data = &data;
    size_t size = 77;
    int there = ckv_cache_load(folder, key, strlen(key), &data, &size);
    assert_int_equal(there, data != NULL);
    free(data);
    return there;
}

static int store(const char *key, const char *image)
{
    return ckv_cache_store(folder, key, strlen(key), image, strlen(image));
}

static void test_folder(void **state)
{
    (void)state;
    char path[100];
    const struct {
        const char *own, *xdg, *home, *wanted; /* wanted NULL: none */
    } cases[] = {
        {"/a/b", "/x", "/h", "/a/b"},
        {"off", "/x", "/h", NULL},
        {"relative", "/x", "/h", NULL},
        {"", "/x", "/h", "/x/ckv/kernels"},
        {NULL, "/x", "/h", "/x/ckv/kernels"},
        {NULL, "relative", "/h", "/h/.cache/ckv/kernels"},
        {NULL, "", "/h", "/h/.cache/ckv/kernels"},
        {NULL, NULL, "/h", "/h/.cache/ckv/kernels"},
        {NULL, NULL, "", NULL},
        {NULL, NULL, "relative", NULL},
        {NULL, NULL, NULL, NULL},
    };
    const char *const names[] = {"CKV_KERNEL_CACHE", "XDG_CACHE_HOME", "HOME"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *const values[] = {cases[i].own, cases[i].xdg, cases[i].home};
        for (int v = 0; v < 3; v++)
            if (values[v] == NULL)
                unsetenv(names[v]);
            else
                setenv(names[v], values[v], 1);
        int there = ckv_cache_folder(path, sizeof path);
        assert_int_equal(there, cases[i].wanted != NULL);
        if (there)
            assert_string_equal(path, cases[i].wanted);
    }
    setenv("CKV_KERNEL_CACHE", "/123456789", 1);
    assert_int_equal(ckv_cache_folder(path, 11), 1);
    assert_int_equal(ckv_cache_folder(path, 10), 0);
    unsetenv("CKV_KERNEL_CACHE");
}

/* ---------------------------------------------------------------- files */

static void test_store(void **state)
{
    (void)state;
    char name[600];
    struct stat status;
    assert_int_equal(is_there("key"), 0);
    assert_int_equal(store("key", "image"), 1);
    assert_there("key", "image");
    assert_int_equal(is_there("other key"), 0);
    assert_int_equal(is_there("ke"), 0);
    assert_int_equal(is_there("keys"), 0);
    assert_int_equal(store("key", "a newer image"), 1);
    assert_there("key", "a newer image");
    assert_int_equal(store("key", ""), 0);
    assert_there("key", "a newer image");
    assert_int_equal(files_in(folder, name, sizeof name), 1);
    /* FNV-1a of "key" over 128 bits, worked out apart from this program. */
    assert_non_null(strstr(name, "/a68d48cc748b5822836dbc796da9ad2c"));
    assert_int_equal(stat(name, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(store("key 2", "image 2"), 1);
    assert_int_equal(files_in(folder, name, sizeof name), 2);
    assert_there("key", "a newer image");
    assert_there("key 2", "image 2");
}

/* Cut anywhere, longer, or any one bit changed: as good as none, and replaced. */
static void test_damage(void **state)
{
    (void)state;
    char name[600];
    unsigned char whole[400], damaged[401];
    assert_int_equal(store("some key", "some image"), 1);
    assert_int_equal(files_in(folder, name, sizeof name), 1);
    size_t size = read_file(name, whole, sizeof whole);
    assert_true(size > 18 && size < sizeof whole);
    for (size_t length = 0; length < size; length++) {
        write_file(name, whole, length);
        assert_int_equal(is_there("some key"), 0);
    }
    memcpy(damaged, whole, size);
    damaged[size] = 0;
    write_file(name, damaged, size + 1);
    assert_int_equal(is_there("some key"), 0);
    for (size_t at = 0; at < size; at++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(damaged, whole, size);
            damaged[at] = (unsigned char)(damaged[at] ^ (1 << bit));
            write_file(name, damaged, size);
            if (is_there("some key"))
                fail_msg("byte %zu, bit %d: not seen", at, bit);
        }
    assert_int_equal(store("some key", "some image"), 1);
    assert_there("some key", "some image");
    write_file(name, whole, size);
    assert_there("some key", "some image");
}

/* A file of another key under this one's name, as a collision would make it. */
static void test_foreign(void **state)
{
    (void)state;
    char name[600], other[600];
    assert_int_equal(store("key 1", "image 1"), 1);
    files_in(folder, name, sizeof name);
    assert_int_equal(store("key 2", "image 2"), 1);
    assert_there("key 1", "image 1");
    DIR *d = opendir(folder);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        snprintf(other, sizeof other, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.' && strcmp(other, name) != 0)
            assert_int_equal(rename(other, name), 0);
    }
    closedir(d);
    assert_int_equal(is_there("key 1"), 0);
    assert_int_equal(store("key 1", "image 1"), 1);
    assert_there("key 1", "image 1");
}

/* Whatever else stands where folder or file should: no harm. */
static void test_places(void **state)
{
    (void)state;
    char name[600], deep[600];
    void *data;
    size_t size;
    assert_int_equal(store("key", "image"), 1);
    files_in(folder, name, sizeof name);
    assert_int_equal(chmod(name, 0622), 0); /* others may write it */
    assert_int_equal(is_there("key"), 0);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(mkdir(name, 0700), 0);
    assert_int_equal(is_there("key"), 0);
    assert_int_equal(store("key", "image"), 0);
    assert_int_equal(rmdir(name), 0);
    assert_int_equal(mkfifo(name, 0600), 0);
    assert_int_equal(is_there("key"), 0);
    assert_int_equal(store("key", "image"), 1); /* in the FIFO's place */
    assert_there("key", "image");
    snprintf(deep, sizeof deep, "%s/a/b/c", folder);
    assert_int_equal(ckv_cache_store(deep, "k", 1, "i", 1), 1);
    assert_int_equal(ckv_cache_load(deep, "k", 1, &data, &size), 1);
    free(data);
    snprintf(deep, sizeof deep, "%.200s/below", name); /* below a file */
    assert_int_equal(ckv_cache_store(deep, "k", 1, "i", 1), 0);
    assert_int_equal(ckv_cache_load(deep, "k", 1, &data, &size), 0);
    assert_int_equal(ckv_cache_store("/proc/no/such", "k", 1, "i", 1), 0);
    if (geteuid() != 0) {
        assert_int_equal(chmod(folder, 0500), 0);
        assert_int_equal(store("key 3", "image"), 0);
        assert_there("key", "image");
        assert_int_equal(chmod(folder, 0700), 0);
    }
}

/* Processes that write one key at once, while it is read: an image is always whole. */
static void test_processes(void **state)
{
    (void)state;
    enum { SIZE = 1 << 21, ROUNDS = 12, PROCESSES = 4 };
    static char image[SIZE];
    char name[600];
    pid_t children[PROCESSES];
    for (int c = 0; c < PROCESSES; c++) {
        children[c] = fork();
        if (children[c] == 0) {
            int wrong = 0;
            for (int i = 0; i < ROUNDS; i++) {
                void *data;
                size_t size;
                memset(image, 'a' + c, SIZE);
                wrong |= !ckv_cache_store(folder, "key", 3, image, SIZE);
                if (!ckv_cache_load(folder, "key", 3, &data, &size))
                    _exit(2);
                memset(image, *(char *)data, SIZE);
                wrong |= size != SIZE || memcmp(image, data, SIZE) != 0;
                free(data);
            }
            _exit(wrong);
        }
    }
    for (int c = 0; c < PROCESSES; c++) {
        int status;
        assert_int_equal(waitpid(children[c], &status, 0), children[c]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_int_equal(files_in(folder, name, sizeof name), 1);
}

/* ---------------------------------------------------------------- code */

/* A driver that takes what it is told to. */
static struct {
    int takes_images, takes_source, gives_built;
    int images, sources;
    char options[100];
} fake;

static int fake_load(ckv_gpu_device *device, const ckv_gpu_image *image, const char *options, ckv_gpu_module **module,
                     void **built, size_t *built_size, char *log, size_t log_size)
{
    (void)device;
    *built = NULL;
    *built_size = 0;
    assert_true(image->size > 0);
    if (image->is_source) {
        fake.sources++;
        assert_int_equal(((const char *)image->data)[image->size], '\0');
        assert_non_null(strstr(image->data, "ckv_params"));
        snprintf(fake.options, sizeof fake.options, "%s", options);
        if (!fake.takes_source)
            return CKV_GPU_FAILED;
        if (fake.gives_built) {
            *built = strdup("a built image");
            *built_size = strlen(*built);
        }
    } else {
        fake.images++;
        if (!fake.takes_images) {
            snprintf(log, log_size, "no image");
            return -5;
        }
        assert_int_equal(image->size, strlen("a built image"));
        assert_memory_equal(image->data, "a built image", image->size);
    }
    *module = (ckv_gpu_module *)(void *)&fake;
    return CKV_GPU_OK;
}

static const char *fake_error(int code)
{
    (void)code;
    return "FAKE_ERROR";
}

static const ckv_gpu_embedded fake_embedded = {ckv_gpu_text_opencl, &ckv_gpu_text_opencl_size, NULL};
static const ckv_gpu_driver fake_driver = {.name = "opencl",
                                           .target = CKV_GPU_OPENCL,
                                           .embedded = &fake_embedded,
                                           .error = fake_error,
                                           .load_module = fake_load};

static int load(const ckv_gpu_device_info *info, const char *defines, ckv_gpu_origin *origin)
{
    ckv_gpu_module *module = NULL;
    char log[100] = "";
    int code = ckv_gpu_load_code(&fake_driver, NULL, info, defines, &module, origin, log, sizeof log);
    assert_int_equal(code == CKV_GPU_OK, module != NULL);
    if (code != CKV_GPU_OK)
        assert_string_equal(log, "building the kernels: FAKE_ERROR (-1000000)");
    return code;
}

static void test_code(void **state)
{
    (void)state;
    ckv_gpu_device_info info = {.name = "device", .vendor = "vendor", .arch = "arch", .driver = "1.0"}, other;
    ckv_gpu_origin origin;
    char name[600];
    setenv("CKV_KERNEL_CACHE", folder, 1);
    memset(&fake, 0, sizeof fake);
    assert_int_equal(load(&info, "", &origin), CKV_GPU_FAILED);
    fake.takes_images = fake.takes_source = fake.gives_built = 1;
    assert_int_equal(load(&info, "-DA=1 -DB=2", &origin), CKV_GPU_OK);
    assert_int_equal(origin, CKV_GPU_BUILT_NOW);
    assert_string_equal(fake.options, "-DA=1 -DB=2");
    assert_int_equal(load(&info, "-DA=1 -DB=2", &origin), CKV_GPU_OK);
    assert_int_equal(origin, CKV_GPU_FROM_CACHE);
    assert_int_equal(fake.sources, 2);
    assert_int_equal(fake.images, 1);
    /* Each part of the key counts. */
    assert_int_equal(load(&info, "-DA=1 -DB=3", &origin), CKV_GPU_OK);
    assert_int_equal(origin, CKV_GPU_BUILT_NOW);
    char *const parts[] = {other.name, other.vendor, other.arch, other.driver};
    for (int i = 0; i < 4; i++) {
        other = info;
        parts[i][0] = 'X';
        assert_int_equal(load(&other, "-DA=1 -DB=2", &origin), CKV_GPU_OK);
        assert_int_equal(origin, CKV_GPU_BUILT_NOW);
    }
    assert_int_equal(files_in(folder, name, sizeof name), 6);
    /* An image that the driver refuses is built anew. */
    fake.takes_images = 0;
    assert_int_equal(load(&info, "-DA=1 -DB=2", &origin), CKV_GPU_OK);
    assert_int_equal(origin, CKV_GPU_BUILT_NOW);
    fake.takes_images = 1;
    /* A driver without images, a cache that is off, one that cannot be. */
    fake.gives_built = 0;
    assert_int_equal(load(&info, "-DC", &origin), CKV_GPU_OK);
    assert_int_equal(load(&info, "-DC", &origin), CKV_GPU_OK);
    assert_int_equal(origin, CKV_GPU_BUILT_NOW);
    assert_int_equal(files_in(folder, name, sizeof name), 6);
    fake.gives_built = 1;
    setenv("CKV_KERNEL_CACHE", "off", 1);
    assert_int_equal(load(&info, "-DA=1 -DB=2", &origin), CKV_GPU_OK);
    assert_int_equal(origin, CKV_GPU_BUILT_NOW);
    setenv("CKV_KERNEL_CACHE", "/proc/no/such", 1);
    assert_int_equal(load(&info, "", &origin), CKV_GPU_OK);
    assert_int_equal(load(&info, "", &origin), CKV_GPU_OK);
    assert_int_equal(origin, CKV_GPU_BUILT_NOW);
    unsetenv("CKV_KERNEL_CACHE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folder),
        cmocka_unit_test_setup_teardown(test_store, new_folder, old_folder),
        cmocka_unit_test_setup_teardown(test_damage, new_folder, old_folder),
        cmocka_unit_test_setup_teardown(test_foreign, new_folder, old_folder),
        cmocka_unit_test_setup_teardown(test_places, new_folder, old_folder),
        cmocka_unit_test_setup_teardown(test_processes, new_folder, old_folder),
        cmocka_unit_test_setup_teardown(test_code, new_folder, old_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
