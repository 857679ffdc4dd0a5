// Which of TensorRT's libraries are installed, by their names: made-up files in the folders that are looked in.
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "backends/api/absent_backend.hpp"
#include "backends/api/tensorrt_search.hpp"
#include "support/files.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

namespace fs = std::filesystem;

/// A variable of the environment while it is alive.
class Variable {
public:
    Variable(const char* name, const std::string& value) : name_(name) {
        if (const char* found = std::getenv(name)) before_ = found;
        ::setenv(name, value.c_str(), 1);
    }
    ~Variable() {
        if (before_) {
            ::setenv(name_, before_->c_str(), 1);
        } else {
            ::unsetenv(name_);
        }
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

private:
    const char* name_;
    std::optional<std::string> before_;
};

class TensorRtSearch : public ::testing::Test {
protected:
    fs::path file(const std::string& name) const {
        const fs::path path = folder_ / name;
        fs::create_directories(path.parent_path());
        EXPECT_TRUE(write_file(path, std::string("none")));
        return path;
    }
    /// Those in this test's folders, "PRODUCT VERSION" each.
    std::vector<std::string> found() const {
        std::vector<std::string> list;
        for (const TensorRtLibrary& library : installed_tensorrt()) {
            if (library.file.string().starts_with(fs::path(folder_ / "").string()))
                list.push_back(library.product + " " + library.version);
        }
        return list;
    }
    test::TemporaryFolder folder_;
    Variable python_{"LATHE_PYTHON", ""}, virtual_environment_{"VIRTUAL_ENV", ""};
};

TEST_F(TensorRtSearch, FindsSdksAndWheelsByTheirNames) {
    // Far from any real version, so that what is installed here is not taken for these.
    fs::create_symlink(file("sdk/lib/libnvinfer.so.97.16.1").filename(), folder_ / "sdk/lib/libnvinfer.so.97");
    file("sdk/lib/libnvinfer_plugin.so.97");
    file("sdk/lib/libnvinfer.so.97x");
    file("site/tensorrt_rtx_libs/libtensorrt_rtx.so.96");
    file("venv/lib/python3.99/site-packages/tensorrt_libs/libnvinfer.so.98");
    fs::create_symlink(folder_ / "nowhere", folder_ / "sdk/lib/libnvinfer.so.95");
    const Variable libraries("LATHE_TENSORRT_LIBRARIES",
                             fs::path(folder_ / "sdk").string() + "::" + fs::path(folder_ / "site").string());
    const Variable root("TENSORRT_ROOT", fs::path(folder_ / "sdk").string());
    const Variable python("VIRTUAL_ENV", fs::path(folder_ / "venv").string());
    EXPECT_EQ(found(), (std::vector<std::string>{"TensorRT 97.16.1", "TensorRT-RTX 96", "TensorRT 98"}));
}

TEST_F(TensorRtSearch, FindsNothingWhereThereIsNothing) {
    const Variable libraries("LATHE_TENSORRT_LIBRARIES", fs::path(folder_ / "missing").string());
    EXPECT_TRUE(found().empty());
    EXPECT_EQ(describe(std::vector<TensorRtLibrary>{}), "");
    EXPECT_EQ(describe({{"TensorRT", "10.3.0", "/a/b"}, {"TensorRT-RTX", "1", "/c"}}),
              "TensorRT 10.3.0 (/a/b), TensorRT-RTX 1 (/c)");
}

TEST_F(TensorRtSearch, NamesOfFilesAreTheProducts) {
    EXPECT_EQ(tensorrt_file_names(false, 10).main, "libnvinfer.so.10");
    EXPECT_EQ(tensorrt_file_names(false, 11).parser, "libnvonnxparser.so.11");
    EXPECT_EQ(tensorrt_file_names(true, 1).main, "libtensorrt_rtx.so.1");
    EXPECT_EQ(tensorrt_file_names(true, 1).parser, "libtensorrt_onnxparser_rtx.so.1");
}

TEST(AbsentBackends, AreAskedWhatIsInstalledWhenTheirStateIs) {
    int asked = 0;
    const auto backend = make_absent_backend({"name", "device", "not built", "build it", [&asked] {
                                                  ++asked;
                                                  return std::string("; but installed");
                                              }});
    EXPECT_EQ(asked, 0);
    EXPECT_EQ(backend->availability().cause, "not built; but installed");
    EXPECT_EQ(asked, 1);
    EXPECT_EQ(make_absent_backend({"name", "device", "not built", "build it"})->availability().cause, "not built");
}

} // namespace
} // namespace lathe
