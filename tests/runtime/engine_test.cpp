#include <csignal>
#include <fstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/models.hpp"
#include "runtime/engine.hpp"
#include "runtime/engine_file.hpp"
#include "support/files.hpp"
#include "support/log.hpp"
#include "support_lib/command.hpp"
#include "support_lib/sections.hpp"

namespace lathe::test {
namespace {

using testing::HasSubstr;

Model labelled_network() {
    Model model = small_network();
    model.set_metadata("lathe.labels", R"(["ant","bee","cat","dog","eel"])");
    model.set_metadata("lathe.preprocess", R"({"resize":[8,8],"scale":0.5})");
    return model;
}

Engine built(std::int64_t max = 8) {
    BuildOptions options;
    options.command_line = "lathe build test";
    options.shapes["input"] = {{1, 3, 8, 8}, {4, 3, 8, 8}, {max, 3, 8, 8}};
    auto engine = Engine::build(labelled_network(), options);
    if (!engine) throw std::runtime_error(engine.error().describe());
    return std::move(*engine);
}

void expect_right(Session& session, std::int64_t batch) {
    HostTensor input = small_input(batch);
    const TensorView view = input.view();
    const auto outputs = session.run({&view, 1});
    ASSERT_TRUE(outputs) << outputs.error().describe();
    const auto expected = small_network_reference(small_network(), input.as<float>(), static_cast<std::size_t>(batch));
    ASSERT_EQ((*outputs)[0].as<float>().size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_NEAR((*outputs)[0].as<float>()[i], expected[i], 1e-4F);
}

std::string read_all(const std::filesystem::path& path) { return read_text_file(path).value(); }

/// Messages logged while it lives.
class LogCapture {
public:
    LogCapture() {
        set_log_sink([this](LogLevel, std::string_view text) { messages += std::string(text) + "\n"; });
    }
    ~LogCapture() { set_log_sink({}); }
    std::string messages;
};

TEST(Engine, WhatIsQuantisedNamesThePrecision) {
    // Nothing between the roundings becomes int8: an error only where that was asked for.
    const Model model = model_from_text("opset 18\ninput %x: float32[2, 3]\n"
                                        "const %s: float32[] = {0.1}\nconst %z: int8[] = {0}\n"
                                        "%q = QuantizeLinear(%x, %s, %z)\n%d = DequantizeLinear(%q, %s, %z)\n"
                                        "%y = Erf(%d)\noutput %y: float32[2, 3]\n");
    BuildOptions options;
    LogCapture log;
    auto as_it_comes = Engine::build(model, options);
    ASSERT_TRUE(as_it_comes) << as_it_comes.error().describe();
    EXPECT_EQ(as_it_comes->info().precision, Precision::int8);
    EXPECT_THAT(log.messages, HasSubstr("no layer to int8"));
    const TemporaryFolder folder;
    ASSERT_TRUE(as_it_comes->save(folder.path() / "e.engine"));
    EngineLoadOptions anew; // compiled from the graph
    anew.profiling = true;
    const auto loaded = Engine::load(folder.path() / "e.engine", anew);
    EXPECT_TRUE(loaded) << loaded.error().describe();
    options.precision = Precision::int8;
    const auto named = Engine::build(model, options);
    ASSERT_FALSE(named);
    EXPECT_EQ(named.error().code, ErrorCode::unsupported);
    options.precision = Precision::float32;
    EXPECT_EQ(Engine::build(model, options).value().info().precision, Precision::float32);
    options.precision.reset();
    options.shapes["input"] = {{1, 3, 8, 8}, {1, 3, 8, 8}, {1, 3, 8, 8}};
    EXPECT_EQ(Engine::build(small_network(), options).value().info().precision, Precision::float32);
}

TEST(Engine, RoundTripKeepsEverything) {
    const TemporaryFolder folder;
    Engine engine = built();
    ASSERT_TRUE(engine.save(folder / "m.engine"));
    EXPECT_TRUE(is_engine_file(folder / "m.engine"));
    const LogCapture log;
    auto loaded = Engine::load(folder / "m.engine");
    ASSERT_TRUE(loaded) << loaded.error().describe();
    EXPECT_EQ(log.messages, "") << "loading on the same machine is silent";
    const EngineInfo& info = loaded->info();
    EXPECT_FALSE(info.recompiled);
    EXPECT_EQ(info.labels, (std::vector<std::string>{"ant", "bee", "cat", "dog", "eel"}));
    EXPECT_THAT(info.preprocess, HasSubstr("\"resize\":[8,8]"));
    EXPECT_EQ(info.command_line, "lathe build test");
    EXPECT_EQ(info.inputs.at(0).range.describe(), "1x3x8x8..4x3x8x8..8x3x8x8");
    EXPECT_EQ(info.hashes, engine.info().hashes);
    EXPECT_EQ(info.file_bytes, std::filesystem::file_size(folder / "m.engine"));
    EXPECT_GT(info.blob_bytes, 0U);
    auto session = loaded->make_session();
    ASSERT_TRUE(session);
    for (const std::int64_t batch : {1, 3, 8})
        expect_right(*session, batch);
    EXPECT_EQ(info.tokenizer, "");
    ASSERT_TRUE(loaded->save(folder / "again.engine"));
    EXPECT_TRUE(Engine::load(folder / "again.engine"));
}

TEST(Engine, CarriesItsTokenizerApartFromItsDescription) {
    const TemporaryFolder folder;
    const std::string graph(100'000, 'A');
    Model model = small_network();
    model.set_metadata("lathe.tokenizer", Json{{"max_length", 9}, {"single", {{"xml", graph}}}, {"pair", 1}}.dump());
    auto engine = Engine::build(model, {});
    ASSERT_TRUE(engine) << engine.error().describe();
    ASSERT_TRUE(engine->save(folder / "m.engine"));
    const auto loaded = Engine::load(folder / "m.engine");
    ASSERT_TRUE(loaded) << loaded.error().describe();
    EXPECT_EQ(Json::parse(loaded->info().tokenizer)["single"]["xml"], graph);
    const Json told = Json::parse(to_json_text(loaded->info()));
    EXPECT_EQ(told["tokenizer"], (Json{{"max_length", 9}})) << "half a megabyte of graphs is not for reading";
    model.set_metadata("lathe.tokenizer", "{");
    EXPECT_FALSE(Engine::build(model, {}));
}

TEST(Engine, LengthsBecomeShapesOfTheirOwn) {
    const Model texts =
        model_from_text("opset 18\ninput %ids: int64[N, L]\ninput %other: int64[N, L]\ninput %bias: float32[N, 1]\n"
                        "%s = Add(%ids, %other)\n%f = Cast(%s) {to = 1}\n%y = Add(%f, %bias)\n"
                        "output %y: float32[N, L]\n");
    BuildOptions options;
    for (const char* name : {"ids", "other"})
        options.shapes[name] = {{1, 1}, {2, 8}, {4, 32}};
    options.shapes["bias"] = {{1, 1}, {2, 1}, {4, 1}};
    options.lengths = {5, 8, 5};
    const auto engine = Engine::build(texts, options);
    ASSERT_TRUE(engine) << engine.error().describe();
    const auto& profiles = engine->info().profiles;
    std::vector<Shape> shapes;
    for (std::size_t i = 1; i < profiles.size(); ++i) {
        shapes.push_back(profiles[i].at("ids").opt);
        EXPECT_EQ(profiles[i].at("other").max, shapes.back());
        EXPECT_EQ(profiles[i].at("bias").opt, (Shape{shapes.back()[0], 1}));
    }
    EXPECT_THAT(shapes, testing::ElementsAre(Shape{1, 5}, Shape{2, 5}, Shape{1, 8}, Shape{2, 8}));
    EXPECT_EQ(engine->info().inputs.at(0).range.max, (Shape{4, 32})) << "all others stay allowed";

    options.lengths = {33};
    EXPECT_EQ(Engine::build(texts, options).error().code, ErrorCode::out_of_range);
    BuildOptions pictures;
    pictures.lengths = {8};
    EXPECT_THAT(Engine::build(small_network(), pictures).error().describe(), HasSubstr("--lengths"));
}

TEST(Engine, SessionOutlivesItsEngine) {
    auto engine = std::make_unique<Engine>(built());
    auto session = engine->make_session();
    engine.reset();
    expect_right(*session, 5);
}

TEST(Engine, ManyThreads) {
    const Engine engine = built();
    std::vector<std::thread> threads;
    for (int t = 0; t < 6; ++t) {
        threads.emplace_back([&engine, t] {
            auto session = engine.make_session();
            ASSERT_TRUE(session);
            for (int i = 0; i < 15; ++i)
                expect_right(*session, 1 + (i + t) % 8);
        });
    }
    for (auto& thread : threads)
        thread.join();
}

TEST(Engine, WrongInputsAreNamed) {
    const Engine engine = built();
    auto session = engine.make_session();
    HostTensor large = small_input(9);
    TensorView view = large.view();
    const auto outside = session->run({&view, 1});
    ASSERT_FALSE(outside);
    EXPECT_EQ(outside.error().code, ErrorCode::out_of_range);
    EXPECT_THAT(outside.error().describe(), HasSubstr("9x3x8x8"));
    EXPECT_THAT(outside.error().describe(), HasSubstr("1x3x8x8..4x3x8x8..8x3x8x8"));
    EXPECT_THAT(outside.error().describe(), HasSubstr("input"));
    EXPECT_EQ(session->run({}).error().code, ErrorCode::invalid_argument);
    HostTensor named = small_input(2);
    named.name = "picture";
    view = named.view();
    const auto unknown = session->run({&view, 1});
    ASSERT_FALSE(unknown);
    EXPECT_THAT(unknown.error().describe(), HasSubstr("picture"));
    expect_right(*session, 2); // an error leaves the session usable
}

TEST(Engine, AnotherMachinesBlobIsCompiledAnew) {
    const TemporaryFolder folder;
    Engine engine = built();
    ASSERT_TRUE(engine.save(folder / "m.engine"));
    const auto file = MappedFile::open(folder / "m.engine");
    const auto contents = parse_engine((*file)->bytes(), "test");
    ASSERT_TRUE(contents);
    Json info = contents->info;
    std::string key = info["blob_key"].get<std::string>();
    key.replace(key.find("openvino "), 9, "openvino 1999.");
    info["blob_key"] = key;
    ASSERT_TRUE(write_engine(folder / "other.engine", info, again(contents->sections)));
    const LogCapture log;
    auto loaded = Engine::load(folder / "other.engine");
    ASSERT_TRUE(loaded) << loaded.error().describe();
    EXPECT_TRUE(loaded->info().recompiled);
    EXPECT_THAT(log.messages, HasSubstr("built for openvino 1999."));
    auto session = loaded->make_session();
    expect_right(*session, 4);
}

TEST(Engine, WithoutACompiledFormIsCompiledWheneverItIsLoaded) {
    // OpenVINO would read what it writes of a rotary embedding back as another one.
    const Model model = model_from_text("opset 23\ninput %x: float32[1, 1, 2, 4]\ninput %c: float32[1, 2, 2]\n"
                                        "input %s: float32[1, 2, 2]\n%y = RotaryEmbedding(%x, %c, %s)\n"
                                        "output %y: float32[1, 1, 2, 4]\n");
    auto engine = Engine::build(model, {});
    ASSERT_TRUE(engine) << engine.error().describe();
    const TemporaryFolder dir;
    ASSERT_TRUE(engine->save(dir / "e.engine"));
    LogCapture log;
    auto loaded = Engine::load(dir / "e.engine");
    ASSERT_TRUE(loaded) << loaded.error().describe();
    EXPECT_EQ(loaded->info().blob_bytes, 0U);
    EXPECT_FALSE(loaded->info().recompiled);
    EXPECT_EQ(log.messages, "");
    ASSERT_TRUE(loaded->save(dir / "again.engine")); // compiled here, kept no more than before
    HostTensor x("x", DataType::float32, {1, 1, 2, 4}), c("c", DataType::float32, {1, 2, 2}),
        s("s", DataType::float32, {1, 2, 2});
    std::ranges::copy(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, x.as<float>().begin());
    std::ranges::copy(std::vector<float>{1, 0.5F, 0, 2}, c.as<float>().begin());
    std::ranges::copy(std::vector<float>{0, 1, 1, 3}, s.as<float>().begin());
    auto session = Engine::load(dir / "again.engine")->make_session();
    ASSERT_TRUE(session);
    const std::vector<TensorView> inputs{x.view(), c.view(), s.view()};
    const auto outputs = session->run(inputs);
    ASSERT_TRUE(outputs) << outputs.error().describe();
    // The halves (a, b) of each row become (a c - b s, a s + b c).
    EXPECT_THAT((*outputs)[0].as<float>(), testing::ElementsAre(1, -3, 3, 4, -7, -12, 5, 34));
}

TEST(Engine, AnyFlippedByteIsAnError) {
    const TemporaryFolder folder;
    Engine engine = built();
    ASSERT_TRUE(engine.save(folder / "m.engine"));
    const std::string good = read_all(folder / "m.engine");
    const auto contents = parse_engine(std::as_bytes(std::span(good)), "good");
    ASSERT_TRUE(contents);
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < 200; ++i)
        places.push_back(i); // all of the fixed part and some of the header
    for (const auto& section : contents->sections) {
        const auto begin = static_cast<std::size_t>(reinterpret_cast<const char*>(section.bytes.data()) - good.data());
        for (std::size_t i = 0; i < 20; ++i)
            places.push_back(begin + section.bytes.size() * i / 20);
        places.push_back(begin + section.bytes.size() - 1);
    }
    for (const std::size_t place : places) {
        std::string bad = good;
        bad[place] = static_cast<char>(bad[place] ^ 0x20);
        const auto parsed = parse_engine(std::as_bytes(std::span(bad)), "bad");
        ASSERT_FALSE(parsed) << "byte " << place;
    }
    // Through the front door as well, with the file named.
    std::string bad = good;
    bad[good.size() - 1] = static_cast<char>(bad[good.size() - 1] ^ 1);
    ASSERT_TRUE(write_file(folder / "bad.engine", bad));
    const auto loaded = Engine::load(folder / "bad.engine");
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, ErrorCode::corrupt);
    EXPECT_THAT(loaded.error().describe(), HasSubstr("bad.engine"));
}

TEST(Engine, TruncatedAnywhereIsAnError) {
    const TemporaryFolder folder;
    Engine engine = built();
    ASSERT_TRUE(engine.save(folder / "m.engine"));
    const std::string good = read_all(folder / "m.engine");
    for (std::size_t i = 0; i < 100; ++i) {
        const std::string cut = good.substr(0, good.size() * i / 100);
        ASSERT_FALSE(parse_engine(std::as_bytes(std::span(cut)), "cut")) << cut.size();
    }
    const std::string longer = good + "x";
    ASSERT_FALSE(parse_engine(std::as_bytes(std::span(longer)), "longer"));
}

TEST(Engine, OtherFilesAndVersionsAreToldApart) {
    const TemporaryFolder folder;
    ASSERT_TRUE(write_file(folder / "text", std::string_view("hello")));
    EXPECT_EQ(Engine::load(folder / "text").error().code, ErrorCode::parse_error);
    EXPECT_FALSE(is_engine_file(folder / "text"));
    EXPECT_EQ(Engine::load(folder / "absent").error().code, ErrorCode::not_found);
    EXPECT_FALSE(Engine::load(folder.path()));
    Engine engine = built();
    ASSERT_TRUE(engine.save(folder / "m.engine"));
    std::string future = read_all(folder / "m.engine");
    future[8] = 9;
    ASSERT_TRUE(write_file(folder / "future.engine", future));
    const auto loaded = Engine::load(folder / "future.engine");
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, ErrorCode::mismatch);
    EXPECT_THAT(loaded.error().describe(), HasSubstr("format 9"));
}

TEST(Engine, HoldsModelsOfOverTwoGigabytes) {
    // The same block many times, so that only the file is large.
    const TemporaryFolder folder;
    if (std::filesystem::space(folder.path()).available < 5'000'000'000) GTEST_SKIP() << "SKIPPED: little disk space";
    Model model = labelled_network();
    const Tensor block("t", DataType::uint8, {1 << 26}, std::vector<std::byte>(1 << 26, std::byte{3}));
    for (int i = 0; i < 33; ++i) {
        const std::string name = "unread" + std::to_string(i);
        model.graph.initializers.emplace(name, block.renamed(name));
    }
    BuildOptions options;
    options.shapes["input"] = {{1, 3, 8, 8}, {4, 3, 8, 8}, {8, 3, 8, 8}};
    {
        auto engine = Engine::build(model, options);
        ASSERT_TRUE(engine) << engine.error().describe();
        EXPECT_GT(engine->info().graph_bytes, std::size_t{1} << 31);
        ASSERT_TRUE(engine->save(folder / "m.engine"));
    }
    auto loaded = Engine::load(folder / "m.engine");
    ASSERT_TRUE(loaded) << loaded.error().describe();
    EXPECT_FALSE(loaded->info().recompiled);
    auto session = loaded->make_session();
    ASSERT_TRUE(session) << session.error().describe();
    expect_right(*session, 2);
    const auto inside = loaded->model();
    ASSERT_TRUE(inside) << inside.error().describe();
    EXPECT_EQ((*inside)->graph.initializers.size(), model.graph.initializers.size());
    EXPECT_TRUE(same_content((*inside)->graph.initializers.at("unread32"), block));
}

TEST(Engine, HostileHeadersAreErrors) {
    const TemporaryFolder folder;
    const std::string blob = "blob";
    const std::vector<NewSection> sections{{"graph.onnx", ByteChain(blob)}, {"compiled", ByteChain(blob)}};
    const Json infos[] = {Json(), Json(5), Json::array(), Json{{"name", 7}}, Json{{"name", "x"}, {"inputs", "no"}}};
    for (const auto& info : infos) {
        ASSERT_TRUE(write_engine(folder / "h.engine", info, sections));
        const auto loaded = Engine::load(folder / "h.engine");
        ASSERT_FALSE(loaded);
        EXPECT_EQ(loaded.error().code, ErrorCode::corrupt) << loaded.error().describe();
    }
    // A whole description over sections that are nonsense: neither blob nor graph can be read.
    Engine engine = built();
    ASSERT_TRUE(write_engine(folder / "n.engine", to_json(engine.info()), sections));
    EXPECT_FALSE(Engine::load(folder / "n.engine"));
}

TEST(Engine, FullDiskLeavesTheOldFile) {
    const TemporaryFolder folder;
    Engine engine = built();
    ASSERT_TRUE(engine.save(folder / "m.engine"));
    const std::string before = read_all(folder / "m.engine");
    const pid_t child = ::fork();
    if (child == 0) {
        // A limit on file size stands in for a full disk: the write fails midway.
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{8192, 8192};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        const auto contents = parse_engine(std::as_bytes(std::span(before)), "before");
        const auto written = write_engine(folder / "m.engine", contents->info, again(contents->sections));
        ::_exit(!written && written.error().code == ErrorCode::io ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(read_all(folder / "m.engine"), before);
}

TEST(Engine, KilledWhileSavingLeavesOldOrNew) {
    const TemporaryFolder folder;
    Engine engine = built();
    ASSERT_TRUE(engine.save(folder / "m.engine"));
    const std::string before = read_all(folder / "m.engine");
    for (int delay_us : {0, 200, 500, 1000, 2000, 5000, 10000}) {
        const pid_t child = ::fork();
        if (child == 0) {
            const auto contents = parse_engine(std::as_bytes(std::span(before)), "before");
            const std::string large(std::size_t{8} << 20, 'x');
            std::vector<EngineSection> sections = contents->sections;
            sections.push_back({"padding", std::as_bytes(std::span(large))});
            while (true)
                (void)write_engine(folder / "m.engine", contents->info, again(sections));
        }
        ::usleep(static_cast<useconds_t>(delay_us));
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        const std::string after = read_all(folder / "m.engine");
        ASSERT_TRUE(parse_engine(std::as_bytes(std::span(after)), "after")) << delay_us;
    }
    ASSERT_TRUE(engine.save(folder / "m.engine"));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << "leftovers are removed";
}

TEST(Shapes, ParsesRanges) {
    const auto full = parse_shape_range("input:1x3x224x224..8x3x224x224..32x3x224x224");
    ASSERT_TRUE(full);
    EXPECT_EQ(full->first, "input");
    EXPECT_EQ(full->second.describe(), "1x3x224x224..8x3x224x224..32x3x224x224");
    EXPECT_EQ(parse_shape_range("a:b:0:2x4")->first, "a:b:0");
    EXPECT_TRUE(parse_shape_range("x:7")->second.is_static());
    EXPECT_EQ(parse_shape_range("x:1x4..8x4")->second.opt, (Shape{8, 4}));
    const auto nameless = parse_shape_range("1x3..8x3");
    ASSERT_TRUE(nameless);
    EXPECT_EQ(nameless->first, "");
    EXPECT_EQ(nameless->second.opt, (Shape{8, 3}));
    for (const char* bad :
         {"", "x", ":1x2", "x:", "x:1x", "x:0x2", "x:-1x2", "x:1xa", "x:2..1", "x:1x2..3", "x:1..2..3..4", "x:1..5..3",
          "x:99999999999999999999", "x:4000000000x4000000000x4000000000"}) {
        const auto refused = parse_shape_range(bad);
        ASSERT_FALSE(refused) << bad;
        EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
        EXPECT_THAT(refused.error().hint, HasSubstr("MIN..OPT..MAX"));
    }
}

TEST(Shapes, AShapeWithoutANameIsTheOnlyInputs) {
    const ShapeRange range = parse_shape_range("2x3x8x8..4x3x8x8")->second;
    const auto shapes = complete_shapes(small_network(), {{"", range}});
    ASSERT_TRUE(shapes) << shapes.error().describe();
    EXPECT_EQ(shapes->size(), 1U);
    EXPECT_EQ(shapes->at("input").describe(), range.describe());
    EXPECT_FALSE(complete_shapes(small_network(), {{"", range}, {"input", range}})) << "twice the same input";
    Model model = small_network();
    model.graph.inputs.push_back(model.graph.inputs[0]);
    model.graph.inputs[1].name = "second";
    const auto two = complete_shapes(model, {{"", range}});
    ASSERT_FALSE(two);
    EXPECT_THAT(two.error().describe(), HasSubstr("input, second"));
}

TEST(Shapes, OpenBatchGetsADefaultAndOtherOpenSizesAreNamed) {
    const auto shapes = complete_shapes(small_network(), {});
    ASSERT_TRUE(shapes);
    EXPECT_EQ(shapes->at("input").describe(), "1x3x8x8..8x3x8x8..32x3x8x8");
    Model model = small_network();
    model.graph.inputs[0].dims->at(2) = Dimension::named("height");
    const auto open = complete_shapes(model, {});
    ASSERT_FALSE(open);
    EXPECT_THAT(open.error().describe(), HasSubstr("height"));
    EXPECT_THAT(open.error().describe(), HasSubstr("--shape"));
    const auto unknown = complete_shapes(small_network(), {{"nope", {{1}, {1}, {1}}}});
    ASSERT_FALSE(unknown);
    EXPECT_THAT(unknown.error().describe(), HasSubstr("nope"));
    EXPECT_FALSE(complete_shapes(small_network(), {{"input", {{1}, {1}, {1}}}}));
    const Shape wrong{1, 4, 8, 8};
    const auto channels = complete_shapes(small_network(), {{"input", {wrong, wrong, wrong}}});
    ASSERT_FALSE(channels);
    EXPECT_EQ(channels.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(channels.error().describe(), HasSubstr("4 channels, and the filters of"));
}

TEST(BuildReports, NameClampedConstantsWithTheirNumbers) {
    BuildReport report;
    report.fallbacks = {"head runs in fp16: not quantised"};
    report.clamped = {{"mask", "float16", 6, -3.4e38, -30000}};
    const Json json = to_json(report);
    EXPECT_EQ(json["clamped"].dump(),
              R"([{"name":"mask","type":"float16","elements":6,"from":-3.4e+38,"to":-30000.0}])");
    EXPECT_EQ(json["fallbacks"].size(), 1U);
    EXPECT_EQ(to_json(BuildReport())["clamped"], Json::array());
}

TEST(Shapes, TextsGetTheirTokenizersLength) {
    Model model = small_network();
    model.graph.inputs[0].dims = {Dimension::named("batch"), Dimension::named("sequence")};
    EXPECT_FALSE(complete_shapes(model, {}));
    model.set_metadata("lathe.tokenizer", R"({"max_length": 256})");
    EXPECT_EQ(complete_shapes(model, {}).value().at("input").describe(), "1x1..8x128..32x256");
    model.set_metadata("lathe.tokenizer", R"({"max_length": 40})");
    EXPECT_EQ(complete_shapes(model, {}).value().at("input").describe(), "1x1..8x40..32x40");
    model.set_metadata("lathe.tokenizer", R"({"max_length": "long"})");
    EXPECT_FALSE(complete_shapes(model, {}));
    model.set_metadata("lathe.tokenizer", R"({"max_length": 40})");
    model.graph.inputs[0].dims->push_back(Dimension::named("width"));
    EXPECT_FALSE(complete_shapes(model, {})) << "no tokens have three axes";
}

} // namespace
} // namespace lathe::test
