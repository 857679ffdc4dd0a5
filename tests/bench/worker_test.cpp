#include "bench/worker_subject.hpp"

#include <chrono>
#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/openvino_peer.hpp"
#include "bench/process.hpp"
#include "bench/statistics.hpp"
#include "support_lib/command.hpp"
#include "support_lib/places.hpp"

namespace lathe {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

std::unique_ptr<JsonProcess> shell(const std::string& script) {
    auto process = JsonProcess::start({"sh", "-c", script}, {{"LATHE_TEST_VARIABLE", "seen"}});
    EXPECT_TRUE(process) << process.error().describe();
    return process ? std::move(*process) : nullptr;
}

TEST(JsonProcess, AnswersLineByLine) {
    auto process =
        shell(R"(while read line; do echo "{\"got\": $line, \"variable\": \"$LATHE_TEST_VARIABLE\"}"; done)");
    for (int i = 0; i < 3; ++i) {
        const auto answer = process->ask({{"i", i}}, seconds(10), no_progress());
        ASSERT_TRUE(answer) << answer.error().describe();
        EXPECT_EQ(answer->at("got").at("i"), i);
        EXPECT_EQ(answer->at("variable"), "seen");
    }
}

TEST(JsonProcess, EveryFailureIsAnErrorThatSaysWhy) {
    struct Case {
        const char* name;
        const char* script;
        ErrorCode code;
        const char* message;
    };
    for (const auto& [name, script, code, message] : {
             Case{"dies with a word", "read line; echo 'ImportError: no such thing' >&2; exit 1", ErrorCode::internal,
                  "ImportError: no such thing"},
             Case{"dies at once", "exit 3", ErrorCode::internal, "ended unexpectedly"},
             Case{"no JSON", "read line; echo hello", ErrorCode::parse_error, "not valid JSON"},
             Case{"no object", "read line; echo 17", ErrorCode::internal, "something else than an object"},
             Case{"killed", "read line; kill -9 $$", ErrorCode::internal, "ended unexpectedly"},
             Case{"hangs", "read line; sleep 60", ErrorCode::internal, "did not answer within 1 s"},
             Case{"reports", R"(read line; echo '{"error": {"code": "not_found", "message": "gone", "hint": "look"}}')",
                  ErrorCode::not_found, "gone"},
         }) {
        auto process = shell(script);
        const auto answer = process->ask({{"command", "x"}}, seconds(1), no_progress());
        ASSERT_FALSE(answer) << name;
        EXPECT_EQ(answer.error().code, code) << name;
        EXPECT_THAT(answer.error().message, HasSubstr(message)) << name;
    }
}

TEST(JsonProcess, AHangingChildIsEndedWithTheObject) {
    const auto start = std::chrono::steady_clock::now();
    shell("trap '' TERM; while true; do sleep 60; done").reset();
    EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(5));
}

TEST(JsonProcess, StopsWhenInterrupted) {
    class Interrupted final : public Progress {
        bool cancelled() const override { return true; }
    } interrupted;
    auto process = shell("read line; sleep 60");
    const auto answer = process->ask({{"command", "x"}}, seconds(60), interrupted);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, ErrorCode::cancelled);
}

TEST(JsonProcess, AMissingProgramIsAnError) {
    const auto process = JsonProcess::start({"lathe-no-such-program"}, {});
    ASSERT_FALSE(process);
    EXPECT_EQ(process.error().code, ErrorCode::not_found);
    EXPECT_EQ(process.error().where, "lathe-no-such-program");
}

const std::string packages = test::source_path("python");

Result<std::unique_ptr<Subject>> start_worker(SubjectKind kind, const std::string& file, const Json& source,
                                              const PythonPlace& python, const std::filesystem::path& scratch) {
    SubjectInfo info;
    info.name = to_string(kind);
    info.kind = kind;
    info.file = file;
    return make_worker_subject(std::move(info), source, "", python, scratch, no_progress());
}

TEST(WorkerSubject, AMissingFrameworkSaysWhatToInstall) {
    const test::TemporaryFolder folder;
    const PythonPlace python{"python3", test::fake_packages() + ":" + packages};
    const auto subject = start_worker(SubjectKind::onnxruntime, "model.onnx", nullptr, python, folder.path());
    ASSERT_FALSE(subject);
    EXPECT_EQ(subject.error().code, ErrorCode::unsupported);
    EXPECT_THAT(subject.error().message, HasSubstr("ONNX Runtime is not installed"));
    EXPECT_THAT(subject.error().hint, HasSubstr("pip install onnxruntime"));
}

TEST(WorkerSubject, AMissingInterpreterSaysSo) {
    const test::TemporaryFolder folder;
    const auto subject =
        start_worker(SubjectKind::pytorch, "", nullptr, PythonPlace{"no-such-python", packages}, folder.path());
    ASSERT_FALSE(subject);
    EXPECT_THAT(subject.error().hint, HasSubstr("LATHE_PYTHON"));
}

/// The two peers that take an ONNX file, on a real model.
class RealPeer : public ::testing::Test {
protected:
    void SetUp() override {
        model_ = test::shared_data("models/mobilenet_v1_0.75_224.onnx");
        if (!std::filesystem::exists(model_)) GTEST_SKIP() << "SKIPPED: no " << model_;
    }
    void expect_timed(Subject& subject, std::int64_t batch) {
        const auto inputs = InputSets::random({{"input", DataType::float32, {batch, 3, 224, 224}}}, 1, 1);
        ASSERT_TRUE(inputs);
        const auto prepared = subject.prepare(*inputs, no_progress());
        ASSERT_TRUE(prepared) << prepared.error().describe();
        const auto burst = subject.burst({50, 1000}, no_progress());
        ASSERT_TRUE(burst) << burst.error().describe();
        ASSERT_FALSE(burst->call_ns.empty());
        const double median = summarize(burst->call_ns).median;
        // 0.33 GMAC a picture: between 10 TMAC/s and 0.1 GMAC/s.
        EXPECT_GT(median, 3e4);
        EXPECT_LT(median, 3e9 * static_cast<double>(batch));
        const auto served = subject.throughput(0.2, no_progress());
        ASSERT_TRUE(served) << served.error().describe();
        EXPECT_GT(served->requests, 0U);
        EXPECT_GE(served->seconds, 0.2);
        EXPECT_GE(served->streams, 1U);
    }
    std::string model_;
};

TEST_F(RealPeer, OnnxRuntime) {
    const char* interpreter = std::getenv("LATHE_PYTHON");
    if (interpreter == nullptr) GTEST_SKIP() << "SKIPPED: LATHE_PYTHON names no interpreter with onnxruntime";
    const test::TemporaryFolder folder;
    const auto subject =
        start_worker(SubjectKind::onnxruntime, model_, nullptr, PythonPlace{interpreter, packages}, folder.path());
    ASSERT_TRUE(subject) << subject.error().describe();
    EXPECT_TRUE((*subject)->info().libraries.contains("onnxruntime"));
    expect_timed(**subject, 1);
    EXPECT_GT((*subject)->info().peak_rss_bytes.value_or(0), 20U << 20);
}

TEST_F(RealPeer, OpenVino) {
    SubjectInfo info;
    info.file = model_;
    const auto subject = make_openvino_peer(std::move(info));
    ASSERT_TRUE(subject) << subject.error().describe();
    expect_timed(**subject, 1);
    expect_timed(**subject, 2);
}

TEST(OpenVinoPeer, AFileItCannotReadIsAnError) {
    const test::TemporaryFolder folder;
    std::ofstream(folder / "bad.onnx") << "not a model";
    for (const char* name : {"bad.onnx", "missing.onnx"}) {
        SubjectInfo info;
        info.file = folder / name;
        const auto subject = make_openvino_peer(std::move(info));
        ASSERT_FALSE(subject) << name;
        EXPECT_EQ(subject.error().code, ErrorCode::unsupported);
        EXPECT_FALSE(subject.error().message.empty());
    }
}

} // namespace
} // namespace lathe
