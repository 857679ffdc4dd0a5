// A model, an engine or a folder runs no code of its own: whatever it holds, the file "marker" never appears.
#include <cstdlib>
#include <functional>

#include "cli/workspace.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

/// What a hostile file does once any of it runs.
constexpr const char* code = "open('marker', 'w').close()\n"
                             "import torch\n"
                             "def net():\n"
                             "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 5))\n";
/// The same in a pickle.
constexpr const char* pickle = "cposix\nsystem\n(S'touch marker'\ntR.";

std::string python() {
    const char* named = std::getenv("LATHE_PYTHON");
    return named == nullptr || *named == '\0' ? "python3" : named;
}

/// As lathe.source records it.
std::string digest_of(const Workspace& work, const std::string& file) {
    return "sha256:" + run_command("sha256sum '" + work.path(file).string() + "'").output.substr(0, 64);
}

void save_with_source(const Workspace& work, const Json& source, const std::string& name = "h.onnx") {
    Model model = tiny_classifier();
    model.set_metadata("lathe.source", source.dump());
    work.save(model, name);
}

Json file_source(const std::string& file, const std::string& hash = "") {
    Json source{{"kind", "file"}, {"name", file + ":net"}, {"file", file}, {"function", "net"}, {"random_seed", 1}};
    if (!hash.empty()) source["file_hash"] = hash;
    return source;
}

/// A small ViT of Hugging Face's whose configuration names code of its own.
void save_remote_code(const Workspace& work) {
    std::filesystem::create_directory(work.path("hub"));
    work.write("hub/config.json", R"({"model_type": "evil", "architectures": ["EvilModel"], "vocab_size": 8,
      "auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}})");
    work.write("hub/evil.py", code);
    work.write("hub/model.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
}

struct Hostile {
    std::string name;
    std::function<void(const Workspace&)> prepare;
    std::string arguments;
    std::string words;       ///< in what is told
    std::string before = ""; ///< before the command: variables of the environment
};

const std::string bench = "bench m.engine --batch-sizes 1 --duration 0 --time-limit 0.1 ";
constexpr const char* run_none = "no model's word for it is run";

std::vector<Hostile> in_models() {
    const auto shadow = [](const Workspace& work) { save_with_source(work, file_source("evil.py")); };
    const auto recorded = [](const Workspace& work) {
        save_with_source(work, file_source("evil.py", digest_of(work, "evil.py")));
    };
    return {
        {"FileWithoutADigest", shadow, bench + "--model h.onnx --against pytorch", run_none},
        {"FileWithItsDigest", recorded, bench + "--model h.onnx --against pytorch,torch-compile", run_none},
        {"FileByItsAbsolutePath",
         [](const Workspace& work) {
             save_with_source(work, file_source(work.path("evil.py").string(), digest_of(work, "evil.py")));
         },
         bench + "--model h.onnx --against pytorch", run_none},
        {"FileNamedByAnEngine",
         [recorded](const Workspace& work) {
             recorded(work);
             (void)work.good("build h.onnx -o h.engine");
             std::filesystem::remove(work.path("h.onnx"));
         },
         "bench h.engine --batch-sizes 1 --duration 0 --time-limit 0.1 --against pytorch", run_none},
        {"FileInOptimize", recorded,
         "optimize h.onnx --precisions fp32 --against pytorch --batch-sizes 1 --duration 0 --time-limit 0.1 -o out",
         run_none},
        {"SourceWithAnotherDigest",
         [](const Workspace& work) {
             save_with_source(work, file_source("evil.py", "sha256:" + std::string(64, '0')));
         },
         bench + "--model h.onnx --against pytorch --source evil.py:net", "SHA-256"},
        {"SourceWithoutADigest", shadow, bench + "--model h.onnx --against pytorch --source evil.py:net",
         "does not record the digest"},
        {"SourceWithAnotherFunction", recorded, bench + "--model h.onnx --against pytorch --source evil.py:other",
         "another function"},
        {"CompiledCodeBesideTheSource",
         [](const Workspace& work) {
             work.write("good.py", "import torch\ndef net():\n    return torch.nn.Flatten()\n");
             save_with_source(work, file_source("good.py", digest_of(work, "good.py")));
             const auto made = run_command("cd '" + work.path("").string() + "' && " + python() +
                                           " -c 'import importlib.util, py_compile; py_compile.compile(\"evil.py\", "
                                           "importlib.util.cache_from_source(\"good.py\"), "
                                           "invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)'");
             EXPECT_EQ(made.exit_code, 0) << made.errors;
         },
         bench + "--model h.onnx --against pytorch --source good.py:net", "pytorch"},
        {"NameThatIsAPath",
         [](const Workspace& work) {
             save_with_source(work, {{"kind", "torchvision"}, {"name", "evil.py:net"}});
         },
         bench + "--model h.onnx --against pytorch", "torchvision has no model named"},
        {"NameOfAHub",
         [](const Workspace& work) {
             save_with_source(work, {{"kind", "timm"}, {"name", "hf-hub:evil/evil"}});
         },
         bench + "--model h.onnx --against pytorch", "timm"},
        {"KindThatIsNoText",
         [](const Workspace& work) {
             save_with_source(work, {{"kind", {"file"}}, {"name", "evil.py:net"}, {"file", "evil.py"}});
         },
         bench + "--model h.onnx --against pytorch", "lathe.source"},
        {"PickledWeights",
         [](const Workspace& work) {
             work.write("w.pth", pickle);
             save_with_source(work, {{"kind", "torchvision"},
                                     {"name", "resnet18"},
                                     {"weights", "w.pth"},
                                     {"weights_hash", digest_of(work, "w.pth")}});
         },
         bench + "--model h.onnx --against pytorch", "the weights cannot be read"},
        {"CodeOfAHubFolder",
         [](const Workspace& work) {
             save_remote_code(work);
             save_with_source(work, {{"kind", "huggingface"}, {"name", "hub"}, {"family", "encoder"}});
         },
         bench + "--model h.onnx --against pytorch", "pytorch"},
        {"ExportOfAHubFolder", [](const Workspace& work) { save_remote_code(work); }, "export hf/hub --output e.onnx",
         "lathe"},
        {"ExportOfPickledWeights", [](const Workspace& work) { work.write("w.pth", pickle); },
         "export resnet18 --weights w.pth --output e.onnx", "the weights cannot be read"},
    };
}

/// Modules that Python or our packages import, in the working folder.
void save_modules(const Workspace& work) {
    for (const char* name : {"json", "onnxruntime", "torch", "numpy", "argparse", "platform", "importlib", "runpy",
                             "lathe_worker", "lathe_export", "sitecustomize", "usercustomize"}) {
        work.write(std::string(name) + ".py", code);
    }
}

std::vector<Hostile> in_the_working_folder() {
    return {
        {"BenchPyTorch", save_modules, bench + "--against pytorch --model m.onnx", "pytorch"},
        {"BenchOnnxRuntime", save_modules, bench + "--against onnxruntime --model m.onnx", "onnxruntime"},
        {"BenchWithAnEmptyEntryOnThePath", save_modules, bench + "--against onnxruntime --model m.onnx", "onnxruntime",
         "PYTHONPATH=:.:"},
        {"Export", save_modules, "export no-such-network --output e.onnx", "lathe"},
        {"ExportWithAnEmptyEntryOnThePath", save_modules, "export no-such-network --output e.onnx", "lathe",
         "PYTHONPATH=:.:"},
        {"Doctor", save_modules, "doctor", "Python"},
    };
}

std::string name_of(const testing::TestParamInfo<Hostile>& info) { return info.param.name; }

void expect_nothing_runs(const Hostile& hostile) {
    const Workspace work;
    work.make_engine();
    work.write("evil.py", code);
    hostile.prepare(work);
    std::filesystem::remove(work.path("marker"));
    const CommandResult result = work.lathe(hostile.arguments, hostile.before);
    EXPECT_FALSE(std::filesystem::exists(work.path("marker"))) << result.output << result.errors;
    EXPECT_LT(result.exit_code, 128) << result.errors;
    EXPECT_THAT(result.output + result.errors, HasSubstr(hostile.words));
}

class HostileModel : public testing::TestWithParam<Hostile> {
protected:
    void SetUp() override {
        if (run_command("cd / && " + python() +
                        " -c 'from importlib.util import find_spec; "
                        "exit(not all(map(find_spec, [\"torch\", \"torchvision\", \"timm\", "
                        "\"transformers\"])))'")
                .exit_code != 0)
            GTEST_SKIP() << "SKIPPED: LATHE_PYTHON names no interpreter with PyTorch";
    }
};
TEST_P(HostileModel, RunsNothing) { expect_nothing_runs(GetParam()); }
INSTANTIATE_TEST_SUITE_P(All, HostileModel, testing::ValuesIn(in_models()), name_of);

class HostileFolder : public testing::TestWithParam<Hostile> {};
TEST_P(HostileFolder, RunsNothing) { expect_nothing_runs(GetParam()); }
INSTANTIATE_TEST_SUITE_P(All, HostileFolder, testing::ValuesIn(in_the_working_folder()), name_of);

// What makes the tests above able to fail: the file that the user names, and the model records, does run.
TEST_F(HostileModel, TheUsersOwnFileRuns) {
    const Workspace work;
    work.make_engine();
    work.write("evil.py", code);
    save_with_source(work, file_source("/elsewhere/evil.py", digest_of(work, "evil.py")));
    const Json document = work.good_json(bench + "--model h.onnx --against pytorch --source evil.py:net");
    EXPECT_TRUE(std::filesystem::exists(work.path("marker")));
    EXPECT_EQ(document["unavailable"].size(), 0U) << document["unavailable"].dump();
    EXPECT_EQ(document["subjects"].size(), 2U);
}

TEST(Source, OfNothingIsRefused) {
    const Workspace work;
    work.make_engine();
    work.write("evil.py", code);
    const auto refused = [&](const std::string& arguments, int exit_code, const std::string& words) {
        const CommandResult result = work.lathe(bench + arguments);
        EXPECT_EQ(result.exit_code, exit_code) << arguments;
        EXPECT_THAT(result.errors, HasSubstr(words)) << arguments;
        EXPECT_THAT(result.errors, Not(HasSubstr("marker")));
    };
    refused("--source evil.py:net", 2, "only PyTorch");
    refused("--against pytorch --source evil.py", 2, "FILE.py:function");
    refused("--against pytorch --source none.py:net", 3, "none.py");
    refused("--against pytorch --source evil.py:net", 2, "not exported from a file");
    EXPECT_FALSE(std::filesystem::exists(work.path("marker")));
}

} // namespace
} // namespace lathe::test
