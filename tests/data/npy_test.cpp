#include "data/npy.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/convert.hpp"
#include "data/golden.hpp"
#include "support/half.hpp"
#include "support_lib/command.hpp"

namespace lathe {
namespace {

using test::file_bytes;
using test::golden;
using testing::HasSubstr;

std::vector<float> floats_of(const HostTensor& tensor) {
    std::vector<float> values(static_cast<std::size_t>(element_count(tensor.shape)));
    const auto converted = convert_elements(tensor.type, tensor.bytes, DataType::float32,
                                            std::as_writable_bytes(std::span(values)), tensor.name);
    EXPECT_TRUE(converted) << converted.error().describe();
    return values;
}

TEST(Npz, EveryFormThatNumpyWrites) {
    const auto read = read_npz(golden("arrays.npz"));
    ASSERT_TRUE(read) << read.error().describe();
    std::map<std::string, const HostTensor*> by_name;
    for (const HostTensor& tensor : *read)
        by_name[tensor.name] = &tensor;
    const std::map<std::string, DataType> forms{
        {"plain", DataType::float32},     {"fortran", DataType::float32}, {"big", DataType::float32},
        {"big_fortran", DataType::int16}, {"half", DataType::float16},    {"double", DataType::float64},
        {"int8", DataType::int8},         {"uint8", DataType::uint8},     {"int32", DataType::int32},
        {"int64", DataType::int64},       {"uint16", DataType::uint16}};
    for (const auto& [name, type] : forms) {
        SCOPED_TRACE(name);
        ASSERT_TRUE(by_name.contains(name));
        const HostTensor& tensor = *by_name[name];
        EXPECT_EQ(tensor.type, type);
        EXPECT_EQ(tensor.shape, (Shape{2, 3, 4}));
        const auto values = floats_of(tensor);
        for (std::size_t i = 0; i < values.size(); ++i)
            EXPECT_EQ(values[i], static_cast<float>(i));
    }
    EXPECT_THAT(floats_of(*by_name["scalar"]), testing::ElementsAre(5.0F));
    EXPECT_EQ(by_name["empty"]->shape, (Shape{0, 3}));
    EXPECT_EQ(by_name["sliced"]->shape, (Shape{2, 2, 4}));
    EXPECT_EQ(floats_of(*by_name["sliced"])[4], 8.0F);
    EXPECT_EQ(by_name["bool"]->type, DataType::boolean);
}

TEST(Npy, HeaderVersions) {
    for (const char* name : {"version2.npy", "version3.npy"}) {
        const auto tensor = read_npy(golden(name));
        ASSERT_TRUE(tensor) << tensor.error().describe();
        EXPECT_EQ(floats_of(*tensor)[23], 23.0F);
    }
}

std::string with_header(const std::string& header, std::size_t data_bytes) {
    std::string text("\x93NUMPY\x01\0", 8);
    text += static_cast<char>(header.size() & 0xFF);
    text += static_cast<char>(header.size() >> 8);
    return text + header + std::string(data_bytes, '\0');
}

TEST(Npy, HostileHeadersAreErrors) {
    struct Case {
        std::string header;
        const char* said;
    };
    const std::string many(100, '1');
    for (const auto& [header, said] : std::vector<Case>{
             {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "'|O'"},
             {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", "'<c8'"},
             {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 4)}", "cut short"},
             {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "cut short"},
             {"{'descr': '<f4', 'fortran_order': False, 'shape': (" + many + ")}", "understood"},
             {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "understood"},
             {"{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}", "cut short"},
             {"{'descr': '<f4', 'fortran_order': 1, 'shape': (1,)}", "understood"},
             {"{'descr': '<f4', 'shape': (1,)}", "understood"},
             {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': __import__('os')}", "understood"},
             {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,", "understood"},
             {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "understood"},
             {"{", "understood"},
             {"", "understood"},
         }) {
        const std::string text = with_header(header, 16);
        const auto view = parse_npy(std::as_bytes(std::span(text)), "hostile.npy");
        ASSERT_FALSE(view) << header;
        EXPECT_THAT(view.error().message, HasSubstr(said)) << header;
        EXPECT_EQ(view.error().where, "hostile.npy");
    }
    for (const std::string text : {"", "\x93NUMPY", "\x93NUMPY\x09         ", "not an array at all"})
        EXPECT_FALSE(parse_npy(std::as_bytes(std::span(text)), "x")) << text;
}

TEST(Npz, DamagedArchivesAreErrors) {
    const test::TemporaryFolder folder;
    const unsigned seed = 11;
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    for (const char* name : {"arrays.npz", "expected.npz"}) {
        const auto original = file_bytes(golden(name));
        std::size_t refused = 0;
        for (int trial = 0; trial < 150; ++trial) {
            auto bytes = original;
            if (trial % 2 == 0)
                bytes.resize(random() % bytes.size());
            else
                bytes[random() % bytes.size()] = static_cast<std::byte>(random());
            ASSERT_TRUE(write_file(folder / "bad.npz", bytes));
            const auto read = read_npz(folder / "bad.npz");
            if (!read) {
                ++refused;
                EXPECT_THAT(read.error().where, HasSubstr("bad.npz"));
            } else {
                EXPECT_EQ(trial % 2, 1) << "a truncated archive was accepted";
            }
        }
        EXPECT_GE(refused, 75U);
    }
}

HostTensor make_tensor(const std::string& name, DataType type, Shape shape) {
    HostTensor tensor(name, type, std::move(shape));
    for (std::size_t i = 0; i < tensor.bytes.size(); ++i)
        tensor.bytes[i] = static_cast<std::byte>(type == DataType::boolean ? i % 2 : i * 37 % 251);
    return tensor;
}

TEST(Npz, WhatIsWrittenIsReadBack) {
    const test::TemporaryFolder folder;
    std::vector<HostTensor> tensors;
    for (const DataType type :
         {DataType::float32, DataType::float16, DataType::float64, DataType::int8, DataType::uint8, DataType::int16,
          DataType::uint16, DataType::int32, DataType::uint32, DataType::int64, DataType::uint64, DataType::boolean}) {
        tensors.push_back(make_tensor(to_string(type), type, {3, 5}));
    }
    tensors.push_back(make_tensor("a/b:0", DataType::float32, {}));
    tensors.push_back(make_tensor("none", DataType::float32, {0, 4}));
    std::vector<TensorView> views;
    for (HostTensor& tensor : tensors)
        views.push_back(tensor.view());
    ASSERT_TRUE(write_npz(folder / "all.npz", views));
    const auto read = read_npz(folder / "all.npz");
    ASSERT_TRUE(read) << read.error().describe();
    ASSERT_EQ(read->size(), tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        EXPECT_EQ((*read)[i].name, tensors[i].name);
        EXPECT_EQ((*read)[i].type, tensors[i].type);
        EXPECT_EQ((*read)[i].shape, tensors[i].shape);
        EXPECT_EQ((*read)[i].bytes, tensors[i].bytes);
    }
}

TEST(Npz, NumpyReadsWhatWeWrite) {
    const char* python = std::getenv("LATHE_PYTHON");
    if (python == nullptr) GTEST_SKIP() << "SKIPPED: LATHE_PYTHON names no Python with NumPy";
    const test::TemporaryFolder folder;
    HostTensor floats = make_tensor("x", DataType::float32, {2, 3});
    for (std::size_t i = 0; i < 6; ++i)
        floats.as<float>()[i] = static_cast<float>(i) / 2;
    HostTensor brain = make_tensor("b", DataType::bfloat16, {1});
    brain.as<std::uint16_t>()[0] = bfloat16_from_float(1.5F);
    ASSERT_TRUE(write_npz(folder / "out.npz", std::vector{floats.view(), brain.view()}));
    const auto result = test::run_command(std::string(python) +
                                          " -c \"import numpy, sys; f = numpy.load(sys.argv[1]); "
                                          "print(f['x'].dtype, f['x'].tolist(), f['b'].dtype, f['b'].tolist())\" " +
                                          (folder / "out.npz").string());
    EXPECT_EQ(result.output, "float32 [[0.0, 0.5, 1.0], [1.5, 2.0, 2.5]] float32 [1.5]\n") << result.errors;
}

TEST(Npz, RefusesNamesThatClash) {
    const test::TemporaryFolder folder;
    HostTensor tensor = make_tensor("x", DataType::float32, {1});
    const auto twice = write_npz(folder / "out.npz", std::vector{tensor.view(), tensor.view()});
    ASSERT_FALSE(twice);
    EXPECT_EQ(twice.error().code, ErrorCode::invalid_argument);
    tensor.type = DataType::int4;
    EXPECT_FALSE(write_npz(folder / "out.npz", std::vector{tensor.view()}));
    EXPECT_FALSE(std::filesystem::exists(folder / "out.npz"));
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ConvertElements, KeepsMeaningOrFails) {
    const std::vector<std::int64_t> integers{-1, 0, 300};
    const auto bytes = std::as_bytes(std::span(integers));
    std::vector<float> floats(3);
    ASSERT_TRUE(
        convert_elements(DataType::int64, bytes, DataType::float32, std::as_writable_bytes(std::span(floats)), "x"));
    EXPECT_THAT(floats, testing::ElementsAre(-1, 0, 300));
    std::vector<std::int8_t> small(3);
    const auto narrow =
        convert_elements(DataType::int64, bytes, DataType::int8, std::as_writable_bytes(std::span(small)), "x");
    ASSERT_FALSE(narrow);
    EXPECT_EQ(narrow.error().code, ErrorCode::out_of_range);
    EXPECT_THAT(narrow.error().message, HasSubstr("element 2"));
    std::vector<std::int64_t> wide(3);
    const auto lossy = convert_elements(DataType::float32, std::as_bytes(std::span(floats)), DataType::int64,
                                        std::as_writable_bytes(std::span(wide)), "x");
    ASSERT_FALSE(lossy);
    EXPECT_EQ(lossy.error().code, ErrorCode::mismatch);
}

} // namespace
} // namespace lathe
