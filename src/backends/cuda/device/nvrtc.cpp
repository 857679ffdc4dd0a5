#include "backends/cuda/device/nvrtc.hpp"

#include <array>

#include <nvrtc.h>

#include "backends/cuda/device/libraries.hpp"

namespace lathe::cuda {

namespace {

/// The functions used here, of the library that was opened.
struct Functions {
    decltype(&::nvrtcCreateProgram) create = nullptr;
    decltype(&::nvrtcDestroyProgram) destroy = nullptr;
    decltype(&::nvrtcCompileProgram) compile = nullptr;
    decltype(&::nvrtcGetProgramLogSize) log_size = nullptr;
    decltype(&::nvrtcGetProgramLog) log = nullptr;
    decltype(&::nvrtcGetCUBINSize) code_size = nullptr;
    decltype(&::nvrtcGetCUBIN) code = nullptr;
    bool complete = false;
};

template <class Function>
bool find(const Library& library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(library.symbol(name));
    return function != nullptr;
}

const Functions& functions() {
    static const Functions found = [] {
        Functions f;
        const Library& library = nvrtc_library();
        f.complete =
            library.found && find(library, "nvrtcCreateProgram", f.create) &&
            find(library, "nvrtcDestroyProgram", f.destroy) && find(library, "nvrtcCompileProgram", f.compile) &&
            find(library, "nvrtcGetProgramLogSize", f.log_size) && find(library, "nvrtcGetProgramLog", f.log) &&
            find(library, "nvrtcGetCUBINSize", f.code_size) && find(library, "nvrtcGetCUBIN", f.code);
        return f;
    }();
    return found;
}

class Program {
public:
    Program(const Functions& functions, const std::string& source, const std::string& name) : functions_(functions) {
        result_ = functions.create(&program_, source.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr);
    }
    ~Program() {
        if (program_ != nullptr) functions_.destroy(&program_);
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    nvrtcResult compile(int sm) {
        if (result_ != NVRTC_SUCCESS) return result_;
        const std::string architecture = "--gpu-architecture=sm_" + std::to_string(sm);
        const std::array options{architecture.c_str(), "--std=c++17", "--extra-device-vectorization"};
        return functions_.compile(program_, static_cast<int>(options.size()), options.data());
    }
    std::string log() const {
        std::size_t size = 0;
        if (program_ == nullptr || functions_.log_size(program_, &size) != NVRTC_SUCCESS || size < 2) return "";
        std::string text(size, '\0');
        if (functions_.log(program_, text.data()) != NVRTC_SUCCESS) return "";
        text.resize(size - 1);
        return text;
    }
    std::string code() const {
        std::size_t size = 0;
        if (functions_.code_size(program_, &size) != NVRTC_SUCCESS) return "";
        std::string bytes(size, '\0');
        if (functions_.code(program_, bytes.data()) != NVRTC_SUCCESS) return "";
        return bytes;
    }

private:
    const Functions& functions_;
    nvrtcProgram program_ = nullptr;
    nvrtcResult result_ = NVRTC_SUCCESS;
};

} // namespace

Result<std::string> compile_cuda(const std::string& source, const std::string& name, int sm) {
    const Functions& library = functions();
    if (!library.complete) {
        const Library& nvrtc = nvrtc_library();
        return Error{ErrorCode::unsupported, nvrtc.found ? "NVRTC lacks functions" : nvrtc.cause, name, nvrtc.cure};
    }
    Program program(library, source, name);
    if (const nvrtcResult result = program.compile(sm); result != NVRTC_SUCCESS) {
        const bool old = result == NVRTC_ERROR_INVALID_OPTION;
        return Error{old ? ErrorCode::unsupported : ErrorCode::internal,
                     old ? "NVRTC " + nvrtc_library().version + " does not know compute capability " +
                               std::to_string(sm / 10) + "." + std::to_string(sm % 10)
                         : "NVRTC: " + program.log().substr(0, 2000),
                     name, old ? "install a newer NVRTC" : "report this"};
    }
    std::string code = program.code();
    if (code.empty()) return Error{ErrorCode::internal, "NVRTC gave no machine code", name, "report this"};
    return code;
}

} // namespace lathe::cuda
