// Only in sanitizer builds. OpenVINO's oneTBB opens libtbbbind with RTLD_DEEPBIND, at which the sanitizers' own dlopen
// ends the process; without that flag the library loads as well.
#include <dlfcn.h>

extern "C" void* dlopen(const char* file, int mode) noexcept {
    using Function = void* (*)(const char*, int);
    static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "dlopen"));
    return real(file, mode & ~RTLD_DEEPBIND);
}
