// `lathe deploy kserve`: manifests that Kubernetes' published schemas accept.
#include <cstdlib>

#include "cli/workspace.hpp"
#include "runtime/engine_file.hpp"
#include "support_lib/places.hpp"
#include "support_lib/sections.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Kserve : public testing::Test {
protected:
    void SetUp() override { work_.make_engine(); }

    /// KIND NAME of each object; a skipped test where they cannot be checked.
    std::string checked(const std::string& folder, const std::string& files) {
        const char* python = std::getenv("LATHE_PYTHON");
        if (python == nullptr || *python == '\0') return "SKIPPED: LATHE_PYTHON is not set";
        const CommandResult result = run_command("cd '" + work_.path(folder).string() + "' && '" + python + "' '" +
                                                 test::source_path("tests/deploy/check_manifests.py") + "' " + files);
        EXPECT_TRUE(result.exit_code == 0 || result.exit_code == 77) << result.output << result.errors;
        return result.output;
    }
    /// m.engine as if it were for another device.
    void make_cuda_engine(const std::string& name) {
        const auto file = MappedFile::open(work_.path("m.engine"));
        ASSERT_TRUE(file);
        const auto contents = parse_engine((*file)->bytes(), "m.engine");
        ASSERT_TRUE(contents) << contents.error().describe();
        Json info = contents->info;
        info["device"] = info["backend"] = "cuda";
        const auto written = write_engine(work_.path(name), info, {{"graph.onnx", *contents->section("graph.onnx")}});
        ASSERT_TRUE(written) << written.error().describe();
    }
    Workspace work_;
};

TEST_F(Kserve, ManifestsAreWhatKubernetesTakes) {
    const Json told = work_.good_json("deploy kserve m.engine -o out --image server:1 --storage pvc://models/m "
                                      "--servers 2..8 --queue-time-ms 2.5 --service pictures");
    EXPECT_EQ(told["server"], "kserve");
    EXPECT_EQ(told["repository"], "out/models");
    EXPECT_EQ(told["manifests"],
              (Json{"out/inferenceservice.yaml", "out/deployment.yaml", "out/queue-time-rule.yaml"}));
    EXPECT_THAT(work_.read("out/models/m/config.pbtxt"), HasSubstr("backend: \"openvino\""));
    const std::string service = work_.read("out/inferenceservice.yaml");
    for (const char* part : {"minReplicas: 2", "maxReplicas: 8", "value: \"pvc://models/m\"", "image: \"server:1\"",
                             "scaleMetric: \"cpu\"", "name: \"pictures\""})
        EXPECT_THAT(service, HasSubstr(part));
    EXPECT_THAT(service, Not(HasSubstr("backend-directory"))); // OpenVINO's is the server's own
    const std::string plain = work_.read("out/deployment.yaml");
    for (const char* part :
         {"claimName: \"models\"", "subPath: \"m\"", "averageValue: \"2500\"", "minReplicas: 2", "maxReplicas: 8"})
        EXPECT_THAT(plain, HasSubstr(part));
    const std::string lines = checked("out", "inferenceservice.yaml deployment.yaml queue-time-rule.yaml");
    if (lines.starts_with("SKIPPED")) GTEST_SKIP() << lines;
    EXPECT_EQ(lines, "InferenceService pictures\nDeployment pictures\nService pictures\n"
                     "HorizontalPodAutoscaler pictures\nPodDisruptionBudget pictures\n"
                     "rule triton_queue_us_per_request\n");
}

TEST_F(Kserve, ScalesByTheTimeInTheQueue) {
    work_.good("deploy kserve m.engine -o out --image server:1 --storage s3://bucket/m --prometheus "
               "http://prometheus.monitoring:9090 --memory-mib 700");
    const std::string service = work_.read("out/inferenceservice.yaml");
    EXPECT_THAT(service, HasSubstr("autoscalerClass: \"keda\""));
    EXPECT_THAT(service, HasSubstr(R"(nv_inference_queue_duration_us{pod=~\"m-predictor-.*\"})"));
    EXPECT_THAT(service, HasSubstr("memory: \"700Mi\""));
    EXPECT_FALSE(std::filesystem::exists(work_.path("out/deployment.yaml"))); // pods cannot mount a bucket
    const std::string lines = checked("out", "inferenceservice.yaml");
    if (lines.starts_with("SKIPPED")) GTEST_SKIP() << lines;
}

TEST_F(Kserve, CoresAreThoseThatInstancesKeepBusy) {
    work_.good("build m.onnx -o three.engine --threads 3");
    work_.good("deploy kserve three.engine -o out --image server:1 --storage s3://bucket/m");
    EXPECT_THAT(work_.read("out/inferenceservice.yaml"), HasSubstr("cpu: \"3\""));
    const Json info = work_.good_json("inspect m.engine"); // of all cores
    EXPECT_EQ(info["threads"], 0);
    work_.good("deploy kserve m.engine -o all --image server:1 --storage s3://bucket/m");
    EXPECT_THAT(work_.read("all/inferenceservice.yaml"), HasSubstr("cpu: \"" + info["machine"]["cores"].dump() + "\""));
}

TEST_F(Kserve, AGpuIsAskedFor) {
    work_.write("m.plan", "not loaded here");
    work_.good("deploy kserve m.engine -o out --plan m.plan --image server:1 --storage pvc://models");
    for (const char* file : {"out/inferenceservice.yaml", "out/deployment.yaml"})
        EXPECT_THAT(work_.read(file), HasSubstr("nvidia.com/gpu: \"1\""));
    EXPECT_THAT(work_.read("out/deployment.yaml"), Not(HasSubstr("subPath")));
    const std::string lines = checked("out", "inferenceservice.yaml deployment.yaml");
    if (lines.starts_with("SKIPPED")) GTEST_SKIP() << lines;
}

TEST_F(Kserve, RefusesWhatTheClusterWould) {
    struct Case {
        const char* options;
        const char* words;
    };
    const std::string good = " --image server:1 --storage pvc://models/m ";
    for (const Case& each : {
             Case{"--storage pvc://models/m", "no image"},
             Case{"--image server:1", "no place where a cluster finds the models"},
             Case{"--image server:1 --storage /models", "no place where a cluster finds the models"},
             Case{"--image server:1 --storage pvc://", "no place where a cluster finds the models"},
             Case{"--image server:1 --storage pvc://Upper/m", "no place where a cluster finds the models"},
             Case{"--image server:1 --storage pvc://models --service Not_A_Label", "Not_A_Label"},
             Case{"--image server:1 --storage pvc://models --service 1st", "1st"},
             Case{"--image server:1 --storage pvc://models --servers 0..2", "0..2"},
             Case{"--image server:1 --storage pvc://models --servers 3..2", "3..2"},
             Case{"--image server:1 --storage pvc://models --servers many", "many"},
             Case{"--image server:1 --storage pvc://models --queue-time-ms 0", "above 0"},
             Case{"--image server:1 --storage pvc://models --copy-backend b", "leave it out"},
         }) {
        const CommandResult result = work_.lathe("deploy kserve m.engine -o out " + std::string(each.options));
        EXPECT_EQ(result.exit_code, 2) << each.options << "\n" << result.output << result.errors;
        EXPECT_THAT(result.errors, HasSubstr(each.words)) << each.options;
        EXPECT_FALSE(std::filesystem::exists(work_.path("out"))) << each.options;
    }
    EXPECT_EQ(work_.lathe("deploy kserve absent.engine m.engine -o out" + good).exit_code, 3);
    make_cuda_engine("gpu.engine");
    const CommandResult mixed = work_.lathe("deploy kserve gpu.engine m.engine -o out" + good);
    EXPECT_EQ(mixed.exit_code, 2) << mixed.errors;
    EXPECT_THAT(mixed.errors, HasSubstr("one folder of backends"));
    EXPECT_FALSE(std::filesystem::exists(work_.path("out")));
    const CommandResult triton = work_.lathe("deploy triton m.engine -o out --image server:1");
    EXPECT_EQ(triton.exit_code, 2);
    EXPECT_THAT(triton.errors, HasSubstr("lathe deploy kserve"));
}

} // namespace
} // namespace lathe::test
