// deploy, as programs that link liblathe.so call it.
#include <fstream>
#include <sstream>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lathe/deploy.hpp>
#include <lathe/engine.hpp>
#include <lathe/model.hpp>

#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string text_of(const std::filesystem::path& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
}

class Deploy : public testing::Test {
protected:
    Deploy() {
        const ModelPtr model = load_model(std::filesystem::path(test::build_path("tests/api/data/small.onnx"))).value();
        BuildOptions options;
        options.shapes = {{"input", {{1, 3, 8, 8}, {4, 3, 8, 8}, {8, 3, 8, 8}}}};
        EXPECT_TRUE(Engine::build(*model, options).value().save(folder_ / "m.engine"));
    }
    DeployRequest request() const { return {.engines = {folder_ / "m.engine"}, .output = folder_ / "repo"}; }
    static ErrorCode code(const DeployRequest& request) {
        const auto deployed = deploy(request);
        return deployed ? ErrorCode::cancelled : deployed.error().code;
    }

    test::TemporaryFolder folder_;
};

TEST_F(Deploy, WritesARepository) {
    DeployRequest wanted = request();
    wanted.engines.push_back(folder_ / "m.engine");
    wanted.names = {"one", "two"};
    wanted.backend = "onnxruntime";
    std::vector<std::string> told;
    wanted.deployed = [&](const DeployedModel& model) { told.push_back(model.name); };
    const DeployResult done = deploy(wanted).value();
    EXPECT_THAT(told, ElementsAre("one", "two"));
    ASSERT_EQ(done.models.size(), 2U);
    EXPECT_EQ(done.repository, folder_ / "repo");
    EXPECT_TRUE(done.backend_directory.empty());
    EXPECT_TRUE(done.manifests.empty());
    const DeployedModel& model = done.models[1];
    EXPECT_EQ(model.folder, folder_ / "repo" / "two");
    EXPECT_EQ(model.backend, "onnxruntime");
    EXPECT_EQ(model.max_batch, 8);
    EXPECT_EQ(model.instances, 1U);
    EXPECT_FALSE(model.sized);
    EXPECT_FALSE(model.gpu);
    EXPECT_THAT(text_of(model.folder / "config.pbtxt"), HasSubstr("max_batch_size: 8\n"));
    EXPECT_TRUE(load_model(model.folder / "1" / "model.onnx"));
    EXPECT_THAT(done.document, HasSubstr("\"server\": \"triton\""));
    // OpenVINO's backend, the usual one of a CPU's engine, computes whole batches.
    const DeployResult usual = deploy(request()).value();
    EXPECT_EQ(usual.models[0].backend, "openvino");
    EXPECT_THAT(usual.models[0].notices, ElementsAre(HasSubstr("fills every batch up to 8")));
}

TEST_F(Deploy, WritesManifestsForACluster) {
    DeployRequest wanted = request();
    wanted.cluster = ClusterRequest{.image = "server:1", .storage = "pvc://models/m"};
    wanted.cluster->most_servers = 3;
    const DeployResult done = deploy(wanted).value();
    EXPECT_EQ(done.repository, folder_ / "repo" / "models");
    ASSERT_EQ(done.manifests.size(), 3U);
    EXPECT_EQ(done.manifests[0], folder_ / "repo" / "inferenceservice.yaml");
    EXPECT_THAT(text_of(done.manifests[0]), HasSubstr("maxReplicas: 3"));
    EXPECT_GE(done.server.value().cores, 1U);
    EXPECT_GE(done.server->memory_mib, 1024U);
    EXPECT_THAT(done.document, HasSubstr("\"server\": \"kserve\""));

    wanted.output = folder_ / "other";
    wanted.cluster->storage = "/models";
    EXPECT_EQ(code(wanted), ErrorCode::invalid_argument);
    wanted.cluster = ClusterRequest{.image = "server:1", .storage = "pvc://models", .least_servers = 3};
    wanted.cluster->most_servers = 2;
    EXPECT_EQ(code(wanted), ErrorCode::invalid_argument);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "other"));
}

TEST_F(Deploy, SaysWhatIsWrong) {
    EXPECT_EQ(code({}), ErrorCode::invalid_argument);
    EXPECT_EQ(code({.engines = {folder_ / "m.engine"}, .output = {}}), ErrorCode::invalid_argument);
    EXPECT_EQ(code({.engines = {folder_ / "none.engine"}, .output = folder_ / "repo"}), ErrorCode::not_found);
    DeployRequest wrong = request();
    wrong.backend = "pytorch";
    EXPECT_EQ(code(wrong), ErrorCode::invalid_argument);
    wrong = request();
    wrong.slo = "p99=20ms";
    EXPECT_EQ(code(wrong), ErrorCode::invalid_argument) << "no rate, no bench";
    wrong = request();
    wrong.names = {"a", "b"};
    EXPECT_EQ(code(wrong), ErrorCode::invalid_argument);
    wrong = request();
    wrong.pictures = wrong.texts = true;
    EXPECT_EQ(code(wrong), ErrorCode::invalid_argument);
    wrong = request();
    wrong.max_queue = -1;
    EXPECT_EQ(code(wrong), ErrorCode::invalid_argument);
    wrong = request();
    wrong.copy_backend = folder_ / "backends";
    EXPECT_EQ(code(wrong), ErrorCode::invalid_argument) << "no model is for Lathe's backend";
    class Stopped final : public Progress {
        bool cancelled() const override { return true; }
    } stopped;
    wrong = request();
    wrong.progress = &stopped;
    const auto interrupted = deploy(wrong);
    ASSERT_FALSE(interrupted);
    EXPECT_EQ(interrupted.error().code, ErrorCode::cancelled);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "repo"));
    ASSERT_TRUE(deploy(request()));
    EXPECT_EQ(code(request()), ErrorCode::invalid_argument) << "it exists";
}

} // namespace
} // namespace lathe
