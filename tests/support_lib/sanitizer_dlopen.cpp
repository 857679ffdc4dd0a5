// Only in sanitizer builds: what OpenVINO needs to run under them.
#include <dlfcn.h>

// OpenVINO's oneTBB opens libtbbbind with RTLD_DEEPBIND, at which the sanitizers' own dlopen ends the process; without
// that flag the library loads as well.
extern "C" void* dlopen(const char* file, int mode) noexcept {
    using Function = void* (*)(const char*, int);
    static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "dlopen"));
    return real(file, mode & ~RTLD_DEEPBIND);
}

// A leak of OpenVINO's own: oneTBB's list of task observers at process exit.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions() {
    return "leak:tbb::detail::r1::observe\n";
}
