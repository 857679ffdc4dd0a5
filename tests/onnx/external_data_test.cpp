// Weights in a file of their own: reading, refusing what is outside, writing so that a crash leaves a matching pair.

#include <csignal>
#include <fstream>

#include <sys/wait.h>
#include <unistd.h>

#include "onnx/models.hpp"
#include "support/files.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

namespace fs = std::filesystem;

Model weighted(float scale = 1.0F) {
    Model model = test::model_from("agraph (float[1000] x, float[1000] w, float[2] small) => (float[1000] y)"
                                   "{ y = Add(x, w) }");
    std::vector<float> values(1000);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = scale * static_cast<float>(i);
    test::add_initializer(model, Tensor::of_floats("w", {1000}, values));
    test::add_initializer(model, test::ramp("small", {2}));
    return model;
}

std::vector<fs::path> data_files(const fs::path& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
        if (entry.path().extension() == ".data") files.push_back(entry.path());
    }
    return files;
}

SaveOptions outside() { return {ExternalData::always, 1'900'000'000, 1024}; }

TEST(ExternalData, RoundTripKeepsBytesAndLeavesSmallTensorsInside) {
    const test::TemporaryFolder folder;
    const Model model = weighted();
    ASSERT_TRUE(save_onnx(model, folder / "m.onnx", outside()));
    ASSERT_EQ(data_files(folder.path()).size(), 1U);
    EXPECT_EQ(fs::file_size(data_files(folder.path())[0]), 4000U);
    EXPECT_LT(fs::file_size(folder / "m.onnx"), 1000U);
    const auto loaded = load_onnx(folder / "m.onnx");
    ASSERT_TRUE(loaded) << loaded.error().describe();
    EXPECT_TRUE(same_content(loaded->graph.initializers.at("w"), model.graph.initializers.at("w")));
    EXPECT_TRUE(same_content(loaded->graph.initializers.at("small"), model.graph.initializers.at("small")));
    EXPECT_TRUE(check_onnx(*loaded));
}

TEST(ExternalData, IsUsedOnlyPastTheLimit) {
    const test::TemporaryFolder folder;
    SaveOptions options;
    ASSERT_TRUE(save_onnx(weighted(), folder / "m.onnx", options));
    EXPECT_TRUE(data_files(folder.path()).empty());
    options.inline_limit = 2000;
    ASSERT_TRUE(save_onnx(weighted(), folder / "m.onnx", options));
    EXPECT_EQ(data_files(folder.path()).size(), 1U);
}

TEST(ExternalData, TensorsStartAlignedAndSeveralSurvive) {
    const test::TemporaryFolder folder;
    Model model = weighted();
    for (const int size : {1, 3, 511, 300'000})
        test::add_initializer(model, test::ramp("t" + std::to_string(size), {size}));
    SaveOptions options = outside();
    options.external_minimum = 1;
    ASSERT_TRUE(save_onnx(model, folder / "m.onnx", options));
    const auto loaded = load_onnx(folder / "m.onnx");
    ASSERT_TRUE(loaded) << loaded.error().describe();
    for (const auto& [name, tensor] : model.graph.initializers) {
        const Tensor& read = loaded->graph.initializers.at(name);
        EXPECT_TRUE(same_content(tensor, read)) << name;
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.bytes().data()) % 64, 0U) << name;
    }
}

TEST(ExternalData, SavingOverTheFileTheWeightsAreMappedFrom) {
    const test::TemporaryFolder folder;
    ASSERT_TRUE(save_onnx(weighted(), folder / "m.onnx", outside()));
    auto loaded = load_onnx(folder / "m.onnx");
    ASSERT_TRUE(loaded);
    ASSERT_TRUE(save_onnx(*loaded, folder / "m.onnx", outside()));
    const auto again = load_onnx(folder / "m.onnx");
    ASSERT_TRUE(again);
    EXPECT_TRUE(same_content(again->graph.initializers.at("w"), weighted().graph.initializers.at("w")));
    EXPECT_EQ(data_files(folder.path()).size(), 1U) << "same content, same name";
}

TEST(ExternalData, ANewVersionLeavesTheOldPairIntact) {
    const test::TemporaryFolder folder;
    ASSERT_TRUE(save_onnx(weighted(1), folder / "m.onnx", outside()));
    fs::copy_file(folder / "m.onnx", folder / "old.onnx");
    ASSERT_TRUE(save_onnx(weighted(2), folder / "m.onnx", outside()));
    const auto old = load_onnx(folder / "old.onnx");
    ASSERT_TRUE(old) << old.error().describe();
    EXPECT_TRUE(same_content(old->graph.initializers.at("w"), weighted(1).graph.initializers.at("w")));
    const auto fresh = load_onnx(folder / "m.onnx");
    ASSERT_TRUE(fresh);
    EXPECT_TRUE(same_content(fresh->graph.initializers.at("w"), weighted(2).graph.initializers.at("w")));
}

TEST(ExternalData, AKillAtAnyMomentLeavesAWholeModel) {
    const test::TemporaryFolder folder;
    ASSERT_TRUE(save_onnx(weighted(1), folder / "m.onnx", outside()));
    for (int round = 0; round < 30; ++round) {
        const pid_t child = ::fork();
        if (child == 0) {
            for (int i = 0;; ++i)
                (void)save_onnx(weighted(static_cast<float>(i % 5)), folder / "m.onnx", outside()).has_value();
        }
        ::usleep(static_cast<useconds_t>(500 + 733 * round));
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        const auto model = load_onnx(folder / "m.onnx");
        ASSERT_TRUE(model) << "round " << round << ": " << model.error().describe();
        const auto values = model->graph.initializers.at("w").values<float>();
        for (std::size_t i = 0; i < values.size(); ++i)
            ASSERT_EQ(values[i], values[1] * static_cast<float>(i)) << "a mixture of two versions";
    }
}

class Location : public testing::TestWithParam<const char*> {};

TEST_P(Location, OutsideTheFolderIsRefused) {
    const test::TemporaryFolder folder;
    fs::create_directory(folder / "model");
    std::ofstream(folder / "secret") << std::string(4000, 's');
    fs::create_symlink(folder / "secret", folder.path() / "model" / "link");
    auto proto = test::proto_from("agraph (float[1000] x) => (float[1000] y) { y = Add(x, w) }");
    auto* w = proto.mutable_graph()->add_initializer();
    w->set_name("w");
    w->set_data_type(onnx::TensorProto::FLOAT);
    w->add_dims(1000);
    w->set_data_location(onnx::TensorProto::EXTERNAL);
    auto* entry = w->add_external_data();
    entry->set_key("location");
    entry->set_value(GetParam() == std::string("ABSOLUTE") ? (folder / "secret").string() : GetParam());
    std::ofstream(folder.path() / "model" / "m.onnx", std::ios::binary) << proto.SerializeAsString();
    const auto model = load_onnx(folder.path() / "model" / "m.onnx");
    ASSERT_FALSE(model);
    EXPECT_NE(model.error().describe().find("outside the model's folder"), std::string::npos)
        << model.error().describe();
    EXPECT_NE(model.error().describe().find("tensor w"), std::string::npos) << model.error().describe();
}
INSTANTIATE_TEST_SUITE_P(Table, Location,
                         testing::Values("../secret", "ABSOLUTE", "a/../../secret", "link", "", "sub/../../secret"));

struct Damage {
    const char* name;
    std::function<void(onnx::TensorProto&)> change;
    const char* says;
};

/// GoogleTest names a parameter by this.
void PrintTo(const Damage& c, std::ostream* out) { *out << c.name; }
void set_entry(onnx::TensorProto& tensor, const std::string& key, const std::string& value) {
    for (auto& entry : *tensor.mutable_external_data()) {
        if (entry.key() == key) entry.set_value(value);
    }
}
class DamagedExternalData : public testing::TestWithParam<Damage> {};

TEST_P(DamagedExternalData, IsRefusedNamingTensorAndFile) {
    const test::TemporaryFolder folder;
    ASSERT_TRUE(save_onnx(weighted(), folder / "m.onnx", outside()));
    onnx::ModelProto proto;
    {
        std::ifstream file(folder / "m.onnx", std::ios::binary);
        ASSERT_TRUE(proto.ParseFromIstream(&file));
    }
    for (auto& tensor : *proto.mutable_graph()->mutable_initializer()) {
        if (tensor.name() == "w") GetParam().change(tensor);
    }
    std::ofstream(folder / "m.onnx", std::ios::binary) << proto.SerializeAsString();
    const auto model = load_onnx(folder / "m.onnx");
    ASSERT_FALSE(model);
    const std::string text = model.error().describe();
    EXPECT_NE(text.find(GetParam().says), std::string::npos) << text;
    EXPECT_NE(text.find("tensor w"), std::string::npos) << text;
    EXPECT_NE(text.find("m.onnx"), std::string::npos) << text;
}
const Damage damages[] = {
    {"Missing", [](auto& t) { set_entry(t, "location", "gone.data"); }, "does not exist"},
    {"Folder", [](auto& t) { set_entry(t, "location", "."); }, "does not exist"},
    {"OffsetPastTheEnd", [](auto& t) { set_entry(t, "offset", "100000"); }, "too short"},
    {"OffsetOverflows", [](auto& t) { set_entry(t, "offset", "18446744073709551615"); }, "too short"},
    {"OffsetTooLarge", [](auto& t) { set_entry(t, "offset", "99999999999999999999999"); }, "number of bytes"},
    {"NegativeOffset", [](auto& t) { set_entry(t, "offset", "-4"); }, "number of bytes"},
    {"LengthIsText", [](auto& t) { set_entry(t, "length", "many"); }, "number of bytes"},
    {"LengthIsWrong", [](auto& t) { set_entry(t, "length", "4"); }, "need 4000"},
    {"ShapeIsWrong", [](auto& t) { t.set_dims(0, 2000); }, "need 8000"},
};
INSTANTIATE_TEST_SUITE_P(Table, DamagedExternalData, testing::ValuesIn(damages),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ExternalData, TruncatedFileIsNoticed) {
    const test::TemporaryFolder folder;
    ASSERT_TRUE(save_onnx(weighted(), folder / "m.onnx", outside()));
    fs::resize_file(data_files(folder.path())[0], 3999);
    const auto model = load_onnx(folder / "m.onnx");
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().code, ErrorCode::corrupt);
}

TEST(ExternalData, FailingToWriteKeepsTheOldModel) {
    const auto result = save_onnx(weighted(), "/nonexistent/folder/m.onnx");
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().describe().find("/nonexistent/folder"), std::string::npos);
}

TEST(ExternalData, NeverPastTwoGigabytesSaysWhatToDo) {
    // The same megabyte many times: the tensors share it, so that the test needs little memory.
    Model model = test::model_from("agraph (float[2] x) => (float[2] y) { y = Neg(x) }");
    const Tensor block("t", DataType::uint8, {1 << 24}, std::vector<std::byte>(1 << 24));
    for (int i = 0; i < 130; ++i)
        test::add_initializer(model, block.renamed("t" + std::to_string(i)));
    const auto text = serialize_onnx(model);
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, ErrorCode::out_of_range);
    const test::TemporaryFolder folder;
    const auto saved = save_onnx(model, folder / "m.onnx", {ExternalData::never, 0, 0});
    ASSERT_FALSE(saved);
    EXPECT_NE(saved.error().hint.find("external data"), std::string::npos);
    EXPECT_TRUE(check_onnx(model)) << "checking must not need the 2 GB in protobuf";
    EXPECT_TRUE(infer_shapes(model));
}

/// What `parse_onnx` makes of the pieces, told to use weights of any file in place.
Result<Model> read_back(const ByteChain& chain, const std::shared_ptr<const std::string>& text) {
    EXPECT_EQ(text->size(), chain.size());
    LoadOptions options;
    options.in_place_from = 0;
    return parse_onnx(std::as_bytes(std::span(*text)), {}, options, text);
}

TEST(LargeModels, WeightsAreReadWhereTheyLie) {
    Model model = weighted();
    model.graph.initializers.at("small").doc = "kept";
    std::vector<float> large(5000, 2.5F);
    test::add_initializer(model, Tensor::of_floats("large", {50, 100}, large));
    test::add_initializer(model, Tensor("bytes", DataType::int8, {4097}, std::vector<std::byte>(4097, std::byte{7})));
    // As any file, and as one past the limit of protobuf: lengths are longer there, so that weights are aligned.
    for (const std::size_t limit : {protobuf_limit, std::size_t{0}}) {
        const auto chain = onnx_pieces(model, limit);
        ASSERT_TRUE(chain) << chain.error().describe();
        const auto text = std::make_shared<const std::string>(chain->flat());
        if (limit == protobuf_limit) {
            EXPECT_EQ(*text, *serialize_onnx(model));
        }
        const auto read = read_back(*chain, text);
        ASSERT_TRUE(read) << read.error().describe();
        ASSERT_EQ(read->graph.initializers.size(), model.graph.initializers.size());
        for (const auto& [name, tensor] : model.graph.initializers)
            EXPECT_TRUE(same_content(read->graph.initializers.at(name), tensor)) << name;
        EXPECT_EQ(read->graph.initializers.at("small").doc, "kept");
        EXPECT_EQ(*serialize_onnx(*read), *serialize_onnx(model));
        const auto in_place = [&](const char* name) {
            const auto* at = reinterpret_cast<const char*>(read->graph.initializers.at(name).bytes().data());
            return at >= text->data() && at < text->data() + text->size();
        };
        EXPECT_FALSE(in_place("small"));
        EXPECT_TRUE(in_place("bytes"));
        if (limit == 0) {
            EXPECT_TRUE(in_place("large"));
        }
    }
}

TEST(LargeModels, DamageIsAnError) {
    Model model = weighted();
    test::add_initializer(model, Tensor("bytes", DataType::int8, {9000}, std::vector<std::byte>(9000)));
    const auto chain = onnx_pieces(model, 0);
    ASSERT_TRUE(chain);
    const std::string whole = chain->flat();
    LoadOptions options;
    options.in_place_from = 0;
    for (std::size_t size = 1; size < whole.size(); size += size < 300 ? 1 : 97) {
        const auto read = parse_onnx(std::as_bytes(std::span(whole)).first(size), {}, options);
        // A cut between fields of the model leaves a whole, smaller message.
        if (read) continue;
        EXPECT_EQ(read.error().code, ErrorCode::parse_error) << size << read.error().describe();
    }
    std::string other = whole;
    for (std::size_t i = 0; i < other.size(); i += i < 300 ? 1 : 211) {
        other[i] = static_cast<char>(other[i] ^ 0x55);
        (void)parse_onnx(std::as_bytes(std::span(other)), {}, options);
        other[i] = whole[i];
    }
    // A tensor that is longer or shorter than its shape says.
    model.graph.initializers.clear();
    test::add_initializer(model, Tensor("w", DataType::int8, {9000}, std::vector<std::byte>(8999)));
    const std::string longer = onnx_pieces(model, 0)->flat();
    const auto wrong = parse_onnx(std::as_bytes(std::span(longer)), {}, options);
    ASSERT_FALSE(wrong);
    EXPECT_NE(wrong.error().describe().find("8999 bytes"), std::string::npos) << wrong.error().describe();
}

} // namespace
} // namespace lathe
