#include "api/picture_size.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <map>
#include <vector>

#include "api/model_data.hpp"
#include "onnx/onnx.hpp"
#include "runtime/engine.hpp"
#include "support/clock.hpp"

namespace lathe {

namespace {

constexpr std::size_t largest_side = 1024; ///< that is tried
constexpr std::size_t looked_at = 16;      ///< pictures, for their shape

/// Pixels of the input a step, as a ratio: below 1 behind an upsampling.
struct Steps {
    double height = 1;
    double width = 1;
};

/// The only input's axes of height and width, or nothing where it holds no pictures.
std::optional<std::size_t> first_side(const std::vector<InputSpec>& inputs) {
    if (inputs.size() != 1 || inputs.front().shape.size() != 4) return std::nullopt;
    const Shape& shape = inputs.front().shape;
    return shape[3] == 3 && shape[1] != 3 ? 1 : 2;
}

/// How a node changes the steps of what it reads; nothing behind it where its result is no map any more.
std::optional<Steps> behind(const Node& node, const Steps& before, const Graph& graph) {
    const auto by = [&](bool up) -> std::optional<Steps> {
        const auto strides = node.ints_or("strides", {1, 1});
        if (strides.size() != 2) return std::nullopt;
        const auto h = static_cast<double>(strides[0]);
        const auto w = static_cast<double>(strides[1]);
        return up ? Steps{before.height / h, before.width / w} : Steps{before.height * h, before.width * w};
    };
    if (node.is("Conv") || node.is("MaxPool") || node.is("AveragePool") || node.is("LpPool")) return by(false);
    if (node.is("ConvTranspose")) return by(true);
    if (node.is("Resize") || node.is("Upsample")) {
        const Tensor* const scales = graph.constant(node.input(node.is("Resize") && node.inputs.size() > 2 ? 2 : 1));
        const auto values = scales == nullptr ? std::vector<float>{} : scales->to_floats();
        if (values.size() != 4 || values[2] <= 0 || values[3] <= 0) return std::nullopt;
        return Steps{before.height / static_cast<double>(values[2]), before.width / static_cast<double>(values[3])};
    }
    for (const char* type : {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Gemm", "MatMul", "Shape", "ReduceMean",
                             "GlobalAveragePool", "GlobalMaxPool", "Gather"})
        if (node.is(type)) return std::nullopt;
    return before;
}

/// Width to height of the pictures, the middle one's; 0 where there are none that can be read.
double shape_of_pictures(const std::filesystem::path& pictures) {
    if (pictures.empty() || !holds_pictures(pictures)) return 0;
    Preprocess small;
    small.resize = Preprocess::Size{8, 8};
    DatasetOptions options;
    options.samples = looked_at;
    const auto data = open_dataset(pictures, small, {{"pictures", DataType::float32, {-1, 3, 8, 8}}}, options);
    if (!data) return 0; // what is wrong with them is told when they are read for their own sake
    const auto batch = (*data)->next(looked_at);
    if (!batch || !*batch || (*batch)->sizes.empty()) return 0;
    std::vector<double> ratios;
    for (const PictureSize& size : (*batch)->sizes)
        ratios.push_back(static_cast<double>(size.width) / static_cast<double>(size.height));
    const auto middle = ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2);
    std::ranges::nth_element(ratios, middle);
    return *middle;
}

std::size_t rounded(double side, std::size_t stride) {
    const double steps = std::max(1.0, std::round(side / static_cast<double>(stride)));
    return static_cast<std::size_t>(steps) * stride;
}

std::string sides(const Preprocess::Size& size) {
    return std::to_string(size.height) + "x" + std::to_string(size.width);
}

/// Sizes in the order in which they are tried, without repetitions.
class Candidates {
public:
    Candidates(const Model& model, const Shape& input, std::size_t first, const OpenSize& open)
        : height_(input[first]), width_(input[first + 1]), strides_(picture_strides(model)), open_(open),
          shape_(shape_of_pictures(open.pictures)) {
        for (const ValueInfo& output : model.graph.outputs) {
            const Shape declared = output.shape().value_or(Shape{});
            // Of three axes the last are scores, not places.
            const std::size_t places = declared.size() == 3 ? 2 : declared.size();
            for (std::size_t axis = 1; axis < places; ++axis)
                if (declared[axis] > 1) implied_.push_back(static_cast<std::size_t>(declared[axis]) * strides_.width);
        }
    }

    std::vector<SizeGuess> list() {
        if (height_ > 0) {
            widths(static_cast<std::size_t>(height_), "the height is the model's; ");
            for (std::size_t w = strides_.width; w <= largest_side; w += strides_.width)
                add({static_cast<std::size_t>(height_), w}, "the height is the model's; the first width that it takes");
            return std::move(list_);
        }
        add(open_.usual, "as is usual");
        for (std::size_t h = strides_.height; h <= largest_side; h += strides_.height)
            widths(h, "the network takes no " + sides(open_.usual) + ", but this height, " +
                          std::to_string(h / strides_.height) + " times its stride; ");
        return std::move(list_);
    }

private:
    /// All for one height.
    void widths(std::size_t height, const std::string& why) {
        if (width_ > 0) {
            add({height, static_cast<std::size_t>(width_)}, why + "the width is the model's");
            return;
        }
        for (const std::size_t width : implied_)
            add({height, width}, why + "the width that makes the output's declared size");
        if (shape_ > 0)
            add({height, rounded(static_cast<double>(height) * shape_, strides_.width)},
                why + "the width is that of the pictures' shape");
        add({height, rounded(static_cast<double>(height), strides_.width)}, why + "as wide as high");
        add({height, rounded(static_cast<double>(open_.usual.width), strides_.width)}, why + "the usual width");
    }
    void add(Preprocess::Size size, std::string why) {
        if (width_ > 0) size.width = static_cast<std::size_t>(width_);
        constexpr std::size_t largest_implied = 4 * largest_side; // lines of text are long
        if (size.width > largest_implied) return;
        const bool known = std::ranges::any_of(list_, [&](const SizeGuess& other) { return other.size == size; });
        if (!known) list_.push_back({size, std::move(why)});
    }

    std::int64_t height_;
    std::int64_t width_;
    Strides strides_;
    const OpenSize& open_;
    double shape_;
    std::vector<std::size_t> implied_{};
    std::vector<SizeGuess> list_{};
};

/// Whether the network runs with that size: shapes first, which is cheap, then one sample.
Result<void> holds(const Model& model, const Preprocess::Size& size, Progress* progress) {
    Model sized = model;
    LATHE_CHECK(set_picture_size(sized, size));
    const InputSpec input = input_specs(sized).front();
    Shape one = input.shape;
    if (one[0] < 1) one[0] = 1;
    BuildOptions build;
    build.progress = progress;
    build.shapes[input.name] = ShapeRange{one, one, one};
    LATHE_TRY(const Engine engine, Engine::build(sized, build));
    LATHE_TRY(Session session, engine.make_session());
    HostTensor zeros(input.name, input.type, one);
    const std::array<TensorView, 1> views{zeros.view()};
    LATHE_TRY(const auto outputs, session.run(views));
    // A map of nothing, of a size below the stride, is no answer.
    for (const TensorView& output : outputs) {
        if (element_count(output.shape) == 0)
            return Error{ErrorCode::mismatch, "the output is empty", std::string(output.name), ""};
    }
    return {};
}

} // namespace

Strides picture_strides(const Model& model) {
    const auto inputs = input_specs(model);
    if (!first_side(inputs)) return {};
    std::map<std::string, Steps> steps{{inputs.front().name, Steps{}}};
    Steps most;
    for (const auto& node : model.graph.nodes) {
        std::optional<Steps> before;
        for (const std::string& input : node->inputs) {
            const auto found = steps.find(input);
            if (found == steps.end()) continue;
            if (!before) before = found->second;
            before->height = std::max(before->height, found->second.height);
            before->width = std::max(before->width, found->second.width);
        }
        const auto after = before ? behind(*node, *before, model.graph) : std::nullopt;
        if (!after) continue;
        most.height = std::max(most.height, after->height);
        most.width = std::max(most.width, after->width);
        for (const std::string& output : node->outputs)
            steps[output] = *after;
    }
    return {static_cast<std::size_t>(std::lround(most.height)), static_cast<std::size_t>(std::lround(most.width))};
}

Result<std::optional<SizeGuess>> guess_picture_size(const Model& model, const OpenSize& open) {
    const auto inputs = input_specs(model);
    const auto first = first_side(inputs);
    if (!first) return std::optional<SizeGuess>();
    const Shape& shape = inputs.front().shape;
    if (shape[*first] > 0 && shape[*first + 1] > 0) return std::optional<SizeGuess>();
    const auto start = std::chrono::steady_clock::now();
    std::size_t tried = 0;
    std::string last;
    for (SizeGuess& guess : Candidates(model, shape, *first, open).list()) {
        if (tried > 0 && seconds_since(start) > open.time_limit_s) break;
        LATHE_CHECK(open.progress->check());
        const auto held = holds(model, guess.size, open.progress);
        if (held) return std::optional(std::move(guess));
        if (held.error().code == ErrorCode::cancelled) return Error(held.error());
        last = sides(guess.size) + ": " + held.error().message +
               (held.error().where.empty() ? "" : " (" + held.error().where + ")");
        ++tried;
    }
    return Error{ErrorCode::unsupported,
                 "the model leaves the size of its pictures open, and takes none of the " + std::to_string(tried) +
                     " that were tried; the last, " + last,
                 inputs.front().name,
                 "say the size it was made for: --preprocess imagenet@HEIGHTxWIDTH, or another that lathe optimize "
                 "--help names"};
}

} // namespace lathe
