// Tile with open sizes, which OpenVINO repeats along other axes where a value of four or five axes has one channel or
// one place, and not at all along many axes that are not known: each number is where repeating puts it.
#include <algorithm>
#include <numeric>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/models.hpp"
#include "backends/on_cpu.hpp"

namespace lathe::test {
namespace {

struct Repeats {
    std::string name;
    Shape shape; ///< the first axis is open
    Shape repeats;
    bool computed = false; ///< from an input's sizes
};
std::ostream& operator<<(std::ostream& stream, const Repeats& repeats) { return stream << repeats.name; }

std::string listed(const Shape& numbers) {
    std::string text;
    for (const std::int64_t number : numbers)
        text += (text.empty() ? "" : ", ") + std::to_string(number);
    return text;
}

std::vector<float> repeated(const HostTensor& x, const Shape& repeats) {
    std::vector<float> result;
    const std::size_t rank = x.shape.size();
    Shape place(rank, 0);
    const auto next = [&] {
        for (std::size_t axis = rank; axis-- > 0;) {
            if (++place[axis] < x.shape[axis] * repeats[axis]) return true;
            place[axis] = 0;
        }
        return false;
    };
    do {
        std::int64_t index = 0;
        for (std::size_t axis = 0; axis < rank; ++axis)
            index = index * x.shape[axis] + place[axis] % x.shape[axis];
        result.push_back(x.as<float>()[static_cast<std::size_t>(index)]);
    } while (next());
    return result;
}

class OpenTile : public testing::TestWithParam<Repeats> {};

TEST_P(OpenTile, PutsEachNumberInItsPlaces) {
    const auto& [name, shape, repeats, computed] = GetParam();
    HostTensor x("x", DataType::float32, shape);
    std::iota(x.as<float>().begin(), x.as<float>().end(), 0.0F);
    Shape inner(shape.begin() + 1, shape.end()), result = inner;
    for (std::size_t axis = 0; axis < result.size(); ++axis)
        result[axis] *= repeats[axis + 1];
    const std::string rank = std::to_string(shape.size());
    std::vector<HostTensor> inputs{x};
    CompileOptions options;
    options.batch_plan = BatchPlan::whole;
    const auto sized = [](Shape of, std::int64_t first) {
        of[0] = first;
        return of;
    };
    options.shapes["x"] = {sized(shape, 1), sized(shape, 6), sized(shape, 7)};
    std::string text = "opset 17\ninput %x: float32[N, " + listed(inner) + "]\n";
    if (computed) {
        HostTensor like("like", DataType::float32, repeats);
        inputs.push_back(like);
        options.shapes["like"] = {Shape(repeats.size(), 1), Shape(repeats.size(), 5), Shape(repeats.size(), 6)};
        std::string open = "A";
        for (std::size_t axis = 1; axis < repeats.size(); ++axis)
            open += ", " + std::string(1, static_cast<char>('A' + axis));
        text += "input %like: float32[" + open + "]\n%r = Shape(%like)\n%t = Tile(%x, %r)\n%y = Neg(%t)\n" +
                "output %y: float32[";
        for (std::size_t axis = 0; axis < repeats.size(); ++axis)
            text += (axis == 0 ? "a" : ", ") + std::string(axis == 0 ? 0 : 1, static_cast<char>('a' + axis));
        text += "]\n";
    } else {
        text += "const %r: int64[" + rank + "] = {" + listed(repeats) + "}\n%t = Tile(%x, %r)\n%y = Neg(%t)\n" +
                "output %y: float32[M, " + listed(result) + "]\n";
    }
    const auto compiled = cpu().compile(model_from_text(text), options);
    ASSERT_TRUE(compiled) << compiled.error().describe();
    const auto outputs = outputs_of(**compiled, inputs);
    ASSERT_EQ(outputs.size(), 1U);
    const std::vector<float> wanted = repeated(x, repeats);
    ASSERT_EQ(outputs[0].as<float>().size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
        ASSERT_EQ(outputs[0].as<float>()[i], -wanted[i]) << i;
}

INSTANTIATE_TEST_SUITE_P(Table, OpenTile,
                         testing::Values(Repeats{"OneChannel", {3, 1, 3, 6}, {2, 2, 2, 1}},
                                         Repeats{"OneChannelOfTwoAxes", {3, 1, 3, 3}, {3, 2, 1, 2}},
                                         Repeats{"OnePlace", {3, 3, 1, 1, 1}, {3, 1, 1, 3, 2}},
                                         Repeats{"OneChannelOfAVolume", {2, 1, 2, 3, 3}, {2, 2, 3, 3, 3}},
                                         Repeats{"OneNumberASample", {3, 1, 1, 1, 2}, {3, 3, 1, 3, 2}},
                                         Repeats{"SeveralChannels", {3, 4, 3, 6}, {2, 2, 2, 2}},
                                         Repeats{"Rows", {3, 1, 4}, {2, 3, 2}},
                                         Repeats{"OneChannelComputed", {3, 1, 3, 6}, {2, 2, 2, 3}, true},
                                         Repeats{"SeveralChannelsComputed", {3, 2, 3, 2}, {2, 3, 2, 3}, true},
                                         Repeats{"VolumeComputed", {3, 2, 3, 2, 2}, {2, 3, 2, 3, 2}, true}),
                         [](const auto& info) { return info.param.name; });

} // namespace
} // namespace lathe::test
