#include "host_kernels.hpp"
#include "support_lib/places.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace lathe::cuda::test {

namespace {

constexpr std::size_t parts = 4; ///< libraries, compiled side by side

std::string read(const std::string& file) {
    std::ifstream in(file);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

/// The kernel under a name of its own, and a function that takes its arguments as an array.
std::string with_caller(const GeneratedKernel& kernel, std::size_t index) {
    const std::string name = "k" + std::to_string(index), entry = name + "_" + kernel.entry;
    std::string source = kernel.source, types, values;
    const std::size_t at = source.find(kernel.entry + "(");
    if (at != std::string::npos) source.replace(at, kernel.entry.size(), entry);
    for (std::size_t i = 0; i < kernel.arguments.size(); ++i) {
        types += i == 0 ? "void*" : ", void*";
        values += (i == 0 ? "a[" : ", a[") + std::to_string(i) + "]";
    }
    return "namespace " + name + " {\n" + source + "extern \"C\" void " + name +
           "(void** a) { reinterpret_cast<void (*)(" + types + ")>(" + entry + ")(" + values + "); }\n}\n";
}

} // namespace

HostKernels::HostKernels() {
    std::string pattern = (std::filesystem::temp_directory_path() / "lathe-generated-XXXXXX").string();
    if (mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
}

HostKernels::~HostKernels() {
    for (void* library : libraries_)
        dlclose(library);
    std::error_code ignored;
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
}

std::size_t HostKernels::add(GeneratedKernel kernel) {
    kernels_.push_back(std::move(kernel));
    return kernels_.size() - 1;
}

std::string HostKernels::compile() {
    if (folder_.empty()) return "no temporary folder";
    const char* named = std::getenv("CXX");
    const std::string compiler = named != nullptr && *named != '\0' ? named : "c++";
    std::vector<int> codes(parts, 0);
    {
        std::vector<std::jthread> threads;
        for (std::size_t part = 0; part < parts; ++part) {
            const std::string base = folder_ + "/part" + std::to_string(part);
            std::ofstream out(base + ".cpp");
            out << generated_portable_preamble() << "#include \"host_runtime.hpp\"\n";
            for (std::size_t i = part; i < kernels_.size(); i += parts)
                out << with_caller(kernels_[i], i);
            out.close();
            threads.emplace_back([base, compiler, &code = codes[part]] {
                code = std::system((compiler +
                                    " -std=c++17 -O1 -w -ffp-contract=off -fno-strict-aliasing -shared "
                                    "-fPIC -I" +
                                    lathe::test::source_path("tests/backends/cuda/generate") + " -o " + base + ".so " +
                                    base + ".cpp > " + base + ".log 2>&1")
                                       .c_str());
            });
        }
    }
    for (std::size_t part = 0; part < parts; ++part) {
        const std::string base = folder_ + "/part" + std::to_string(part);
        if (codes[part] != 0) return read(base + ".log").substr(0, 4000);
        void* library = dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
        if (library == nullptr) return dlerror();
        libraries_.push_back(library);
    }
    return "";
}

void HostKernels::run(std::size_t index, std::vector<void*> arguments) const {
    const GeneratedKernel& kernel = kernels_[index];
    void* library = libraries_[index % parts];
    using Run =
        void (*)(void (*)(void**), void**, const std::uint32_t*, std::uint32_t, std::uint32_t, std::uint32_t, int);
    const auto run = reinterpret_cast<Run>(dlsym(library, "run_on_host"));
    const auto caller = reinterpret_cast<void (*)(void**)>(dlsym(library, ("k" + std::to_string(index)).c_str()));
    const bool together =
        kernel.source.find("barrier()") != std::string::npos || kernel.source.find("shuffle_xor(") != std::string::npos;
    run(caller, arguments.data(), kernel.grid.data(), kernel.threads, kernel.cluster, kernel.shared_bytes,
        together ? 1 : 0);
}

} // namespace lathe::cuda::test
