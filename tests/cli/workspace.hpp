#pragma once

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/models.hpp"
#include "data/npy.hpp"
#include "onnx/onnx.hpp"
#include "support/files.hpp"
#include "support/json.hpp"
#include "support_lib/command.hpp"
#include "support_lib/page.hpp"
#include "support_lib/places.hpp"

namespace lathe::test {

/// A classifier of 8x8 pictures into five classes, with an open batch size, a BatchNormalization and an Identity to
/// simplify away, and enough channels for every target to quantise its second convolution.
inline Model tiny_classifier(std::uint32_t seed = 1) {
    Model model = model_from_text("opset 18\n"
                                  "input %input: float32[N, 3, 8, 8]\n"
                                  "input %w1: float32[16, 3, 3, 3]\n"
                                  "input %w2: float32[16, 16, 3, 3]\n"
                                  "input %bias: float32[16]\n"
                                  "input %f: float32[16, 5]\n"
                                  "input %b: float32[5]\n"
                                  "const %scale: float32[16] = {1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 1.1, 1.2, 1.3, 1.4, 1.5, "
                                  "1.6, 1.0, 0.9, 0.8, 0.7}\n"
                                  "%c1 = Conv(%input, %w1) {name = \"first\", pads = [1, 1, 1, 1]}\n"
                                  "%n1 = BatchNormalization(%c1, %scale, %bias, %bias, %scale)\n"
                                  "%r1 = Relu(%n1)\n"
                                  "%i1 = Identity(%r1)\n"
                                  "%c2 = Conv(%i1, %w2) {name = \"second\", pads = [1, 1, 1, 1]}\n"
                                  "%r2 = Relu(%c2)\n"
                                  "%pool = GlobalAveragePool(%r2)\n"
                                  "%flat = Flatten(%pool)\n"
                                  "%scores = Gemm(%flat, %f, %b) {name = \"head\"}\n"
                                  "output %scores: float32[N, 5]\n");
    model.graph.inputs.resize(1); // the others become constants
    add_weights(model, "w1", {16, 3, 3, 3}, seed);
    add_weights(model, "w2", {16, 16, 3, 3}, seed + 1);
    add_weights(model, "bias", {16}, seed + 2);
    add_weights(model, "f", {16, 5}, seed + 3);
    add_weights(model, "b", {5}, seed + 4);
    model.set_metadata("lathe.preprocess", R"({"resize":[8,8],"scale":0.00784313725,"mean":[1,1,1],"std":[1,1,1]})");
    model.set_metadata("lathe.labels", R"(["ant","bee","cat","dog","eel"])");
    return model;
}

/// A folder to run the program in, with what most commands need: m.onnx, arrays.npy and the labelled pictures in
/// photos. What commands make is made when first asked for.
class Workspace {
public:
    Workspace() {
        save(tiny_classifier(), "m.onnx");
        save_array("arrays.npy", {24, 3, 8, 8});
        std::filesystem::create_directory(path("photos"));
        std::string labels = "file,class_index\n";
        int next = 0;
        for (const char* name : {"rgb.png", "grey.png", "rgba.png", "palette.png", "420.jpg", "422.jpg", "444.jpg",
                                 "exif.jpg", "cmyk.jpg", "grey.jpg"}) {
            std::filesystem::copy_file(test::source_path("tests/data/golden/") + name, path("photos") / name);
            labels += std::string(name) + "," + std::to_string(next++ % 5) + "\n";
        }
        write("photos/labels.csv", labels);
    }

    std::filesystem::path path(const std::string& name) const { return folder_ / name; }

    void save(const Model& model, const std::string& name, const SaveOptions& options = {}) const {
        const auto saved = save_onnx(model, path(name), options);
        if (!saved) ADD_FAILURE() << saved.error().describe();
    }
    void write(const std::string& name, const std::string& text) const {
        const auto written = write_file(path(name), text);
        if (!written) ADD_FAILURE() << written.error().describe();
    }
    std::string read(const std::string& name) const {
        auto text = read_text_file(path(name));
        if (text) return *std::move(text);
        ADD_FAILURE() << text.error().describe();
        return "";
    }
    Json json(const std::string& name) const { return as_json(read(name)); }
    /// What a report's page shows.
    Json page(const std::string& name) const { return as_json(page_data_of(read(name))); }
    static Json as_json(const std::string& text) {
        const auto parsed = parse_json(text, "output");
        if (parsed) return *parsed;
        throw std::runtime_error(parsed.error().describe() + "\n" + text); // ends the test
    }
    void save_array(const std::string& name, const Shape& shape, DataType type = DataType::float32) const {
        HostTensor tensor("input", type, shape);
        if (type == DataType::float32) {
            const auto values = noise(tensor.bytes.size() / sizeof(float), 7);
            std::copy(values.begin(), values.end(), tensor.as<float>().begin());
        }
        const auto written = write_npy(path(name), tensor.view());
        if (!written) ADD_FAILURE() << written.error().describe();
    }

    /// Runs the program in the folder. `wrapper` goes before it: "timeout 5".
    CommandResult lathe(const std::string& arguments, const std::string& wrapper = "") const {
        return run_command("cd '" + folder_.path().string() + "' && " + wrapper + " '" + test::lathe_binary() + "' " +
                           arguments);
    }
    /// The same, expected to succeed.
    CommandResult good(const std::string& arguments) const {
        CommandResult result = lathe(arguments);
        EXPECT_EQ(result.exit_code, 0) << "lathe " << arguments << "\n" << result.output << result.errors;
        return result;
    }
    Json good_json(const std::string& arguments) const { return as_json(good(arguments + " --json").output); }

    void make_simple() const { once("s.onnx", "simplify m.onnx -o s.onnx"); }
    void make_ranges() const {
        make_simple();
        once("s.ranges", "calibrate s.onnx --data arrays.npy -o s.ranges");
    }
    void make_int8() const {
        make_ranges();
        once("q.onnx", "quantize s.onnx --ranges s.ranges -o q.onnx");
    }
    void make_engine() const { once("m.engine", "build m.onnx -o m.engine"); }
    void make_int8_engine() const {
        make_int8();
        once("q.engine", "build q.onnx -o q.engine");
    }

private:
    void once(const std::string& product, const std::string& command) const {
        if (!std::filesystem::exists(path(product))) (void)good(command);
    }

    TemporaryFolder folder_;
};

} // namespace lathe::test
