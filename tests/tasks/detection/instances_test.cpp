#include "tasks/detection/instances.hpp"

#include <numeric>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tasks/detection/pycocotools.hpp"
#include "tasks/task.hpp"

namespace lathe {
namespace {

using testing::HasSubstr;

/// Checks the pixels too: they are pycocotools' to the last.
ObjectMask mask_of(const Json& thing, const Json& size) {
    auto mask = mask_of_segmentation(thing["segmentation"], size["height"].get<std::size_t>(),
                                     size["width"].get<std::size_t>());
    EXPECT_TRUE(mask) << mask.error().describe();
    if (!mask) return {};
    EXPECT_EQ(mask->text(), thing["runs"].get<std::string>()) << thing["segmentation"].dump();
    return *mask;
}

/// Of 200 random cases and the degenerate ones, against pycocotools.
TEST(Instances, EqualPycocotools) {
    test::compare_with_pycocotools("instance_cases.py", [](const Json& each) {
        std::vector<InstancePicture> pictures;
        for (const Json& from : each["pictures"]) {
            InstancePicture& picture = pictures.emplace_back();
            for (const Json& object : from["truth"]) {
                TrueInstance& truth = picture.truth.emplace_back();
                truth.object.class_index = object["class"].get<std::int32_t>();
                truth.object.area = object["area"].get<double>();
                truth.object.crowd = object["crowd"].get<bool>();
                truth.mask = mask_of(object, from["size"]);
            }
            for (const Json& found : from["instances"]) {
                Instance& instance = picture.instances.emplace_back();
                instance.detection.class_index = found["class"].get<std::int32_t>();
                instance.detection.score = found["score"].get<float>();
                instance.mask = mask_of(found, from["size"]);
            }
        }
        const AveragePrecision figures = match_instances(pictures).figures();
        const double ours[12]{figures.ap,         figures.ap50,         figures.ap75,          figures.ap_small,
                              figures.ap_medium,  figures.ap_large,     figures.recall_1,      figures.recall_10,
                              figures.recall_100, figures.recall_small, figures.recall_medium, figures.recall_large};
        for (std::size_t i = 0; i < 12; ++i)
            EXPECT_NEAR(ours[i], each["figures"][i].get<double>(), 1e-6) << "figure " << i;
    });
}

constexpr DecodeOptions all_of_them{0.0F, 1.0F, 100};

std::vector<OutputShape> shapes_of(std::span<const HostTensor> outputs) {
    std::vector<OutputShape> shapes;
    for (const HostTensor& output : outputs) {
        shapes.push_back({output.name, output.shape});
        shapes.back().shape[0] = -1;
    }
    return shapes;
}

/// Outputs of a YOLO of one class: 126 anchors, of which the first hold the boxes, scored in their order.
std::vector<HostTensor> prototype_outputs(const Json& from) {
    std::vector<HostTensor> outputs;
    outputs.emplace_back("output0", DataType::float32, Shape{1, 13, 126});
    outputs.emplace_back("output1", DataType::float32, Shape{1, 8, 16, 24});
    const auto anchors = outputs[0].as<float>();
    for (std::size_t i = 0; i < from["boxes"].size(); ++i) {
        const auto box = from["boxes"][i].get<std::vector<double>>();
        const double values[5]{(box[0] + box[2]) / 2, (box[1] + box[3]) / 2, box[2] - box[0], box[3] - box[1],
                               0.9 - 0.01 * static_cast<double>(i)};
        for (std::size_t k = 0; k < 5; ++k)
            anchors[k * 126 + i] = static_cast<float>(values[k]);
        for (std::size_t k = 0; k < 8; ++k)
            anchors[(5 + k) * 126 + i] = from["coefficients"][i][k].get<float>();
    }
    std::ranges::copy(from["prototypes"].get<std::vector<float>>(), outputs[1].as<float>().begin());
    return outputs;
}

/// Outputs of a Mask R-CNN.
std::vector<HostTensor> pasted_outputs(const Json& from) {
    const auto count = static_cast<std::int64_t>(from["boxes"].size());
    std::vector<HostTensor> outputs;
    outputs.emplace_back("boxes", DataType::float32, Shape{count, 4});
    outputs.emplace_back("labels", DataType::float32, Shape{count});
    outputs.emplace_back("scores", DataType::float32, Shape{count});
    outputs.emplace_back("masks", DataType::float32, Shape{count, 1, 28, 28});
    for (std::size_t i = 0; i < from["boxes"].size(); ++i) {
        std::ranges::copy(from["boxes"][i].get<std::vector<float>>(),
                          outputs[0].as<float>().begin() + static_cast<std::ptrdiff_t>(4 * i));
        outputs[1].as<float>()[i] = 3;
        outputs[2].as<float>()[i] = 0.9F - 0.01F * static_cast<float>(i);
    }
    std::ranges::copy(from["values"].get<std::vector<float>>(), outputs[3].as<float>().begin());
    return outputs;
}

/// What PyTorch's and torchvision's arithmetic in float32 gives, but for pixels that are a rounding away from a half.
void expect_masks(const Json& from, const std::vector<HostTensor>& outputs) {
    const auto height = from["height"].get<std::size_t>();
    const auto width = from["width"].get<std::size_t>();
    const auto head = recognise_head(shapes_of(outputs), height, width);
    ASSERT_TRUE(head && head->masks);
    const auto found = decode_instances(*head, outputs, 0, all_of_them, std::nullopt);
    ASSERT_TRUE(found) << found.error().describe();
    std::uint64_t differing = 0;
    std::uint64_t all = 0;
    std::size_t next = 0;
    for (const Json& runs : from["masks"]) {
        const auto expected = ObjectMask::from_runs(height, width, runs.get<std::vector<std::uint32_t>>());
        ASSERT_TRUE(expected) << expected.error().describe();
        if (expected->area() == 0) continue; // no instance
        ASSERT_LT(next, found->size());
        const ObjectMask& mask = (*found)[next++].mask;
        differing += mask.area() + expected->area() - 2 * common_area(mask, *expected);
        all += expected->area();
    }
    EXPECT_EQ(found->size(), next);
    EXPECT_GT(all, 100U); // of the smallest boxes that the seed may give
    EXPECT_LE(differing, 2U) << "of " << all;
}

TEST(Instances, MasksAreTorchvisionsAndUltralytics) {
    Json cases;
    test::read_cases("mask_cases.py", cases);
    if (IsSkipped() || HasFatalFailure()) return;
    for (const Json& each : cases["prototypes"])
        expect_masks(each, prototype_outputs(each));
    for (const Json& each : cases["pasted"])
        expect_masks(each, pasted_outputs(each));
}

/// A YOLO of one class for 64 x 64 pixels whose only object is `left` .. `right`, its mask all of its box.
std::vector<HostTensor> one_object(float left, float right) {
    std::vector<HostTensor> outputs;
    outputs.emplace_back("output0", DataType::float32, Shape{2, 13, 84});
    outputs.emplace_back("output1", DataType::float32, Shape{2, 8, 16, 16});
    const float values[6]{(left + right) / 2, (left + right) / 2, right - left, right - left, 0.9F, 4};
    for (std::size_t k = 0; k < 6; ++k)
        outputs[0].as<float>()[k * 84] = values[k];
    std::ranges::fill(outputs[1].as<float>().first(256), 4.0F);
    return outputs;
}

TEST(Instances, MasksGoBackIntoThePicture) {
    const auto outputs = one_object(16, 48);
    const auto head = recognise_head(shapes_of(outputs), 64, 64);
    ASSERT_TRUE(head);
    EXPECT_EQ(head->form, HeadForm::yolov8);
    EXPECT_EQ(head->classes, 1U);
    EXPECT_EQ(head->coefficients, 8U);
    EXPECT_EQ(parts_of(*head).back(), (OutputPart{1, 1, 0, 8, Meaning::mask_prototype}));
    // 128 x 96 pixels in a letterbox: half as large, 8 rows of border above.
    Preprocess preprocess;
    preprocess.letterbox = Preprocess::Size{64, 64};
    const auto found =
        decode_instances(*head, outputs, 0, {0.25F, 0.65F, 10}, PicturePlace{preprocess.mapping(128, 96), {128, 96}});
    ASSERT_TRUE(found) << found.error().describe();
    ASSERT_EQ(found->size(), 1U);
    EXPECT_EQ(found->front().detection.box, (Box{32, 16, 64, 64}));
    const ObjectMask& mask = found->front().mask;
    EXPECT_EQ(mask.height(), 96U);
    EXPECT_EQ(mask.width(), 128U);
    const Json box = Json::array({{32, 16, 96, 16, 96, 80, 32, 80}});
    EXPECT_GT(overlap(mask, *mask_of_segmentation(box, 96, 128)), 0.9) << mask.text();
    // The second sample holds nothing, a third is not there, and what is not the head's is refused.
    EXPECT_TRUE(decode_instances(*head, outputs, 1, {0.25F, 0.65F, 10}, std::nullopt)->empty());
    EXPECT_FALSE(decode_instances(*head, outputs, 2, {0.25F, 0.65F, 10}, std::nullopt));
    EXPECT_FALSE(decode_instances(*head, std::span(outputs).first(1), 0, {0.25F, 0.65F, 10}, std::nullopt));
    std::vector<HostTensor> others = outputs;
    others[1] = HostTensor("output1", DataType::float32, Shape{2, 9, 16, 16});
    EXPECT_FALSE(decode_instances(*head, others, 0, {0.25F, 0.65F, 10}, std::nullopt));

    const auto boxes = decode(*head, outputs, 0, {0.25F, 0.65F, 10});
    ASSERT_TRUE(boxes) << boxes.error().describe();
    EXPECT_EQ(boxes->size(), 1U) << "coefficients are no classes";
    const auto truth = as_truth(*found, 0.25F);
    ASSERT_EQ(truth.size(), 1U);
    EXPECT_EQ(truth[0].object.area, static_cast<double>(mask.area()));
    EXPECT_TRUE(as_truth(*found, 0.95F).empty());
    EXPECT_TRUE(as_truth({{found->front().detection, ObjectMask(96, 128)}}, 0.25F).empty()) << "without a pixel";
}

TEST(Instances, CorrectionsAreJudgedByMasks) {
    const auto outputs = one_object(16, 48);
    const auto task = recognise_task(shapes_of(outputs), 64, 64);
    ASSERT_TRUE(task != nullptr);
    EXPECT_EQ(task->name(), "instances");
    const auto judge = task->judge();
    ASSERT_TRUE(judge->add(0, outputs));
    ASSERT_TRUE(judge->add(1, outputs));
    std::vector<HostTensor> others = outputs;
    for (float& value : others[1].as<float>())
        value = -value; // the box is the same, its mask is empty
    ASSERT_TRUE(judge->add(2, others));
    EXPECT_EQ(judge->metric(0), 1);
    EXPECT_EQ(judge->metric(1), 1);
    EXPECT_EQ(judge->metric(2), 0);
}

TEST(Instances, HeadsWithMasksAreTold) {
    const OutputShape prototypes{"output1", {-1, 32, 160, 160}};
    const OutputShape boxes{"boxes", {-1, 4}};
    const OutputShape scores{"scores", {-1}};
    const OutputShape labels{"labels", {-1}};
    struct Case {
        std::vector<OutputShape> outputs;
        HeadForm form;
        std::optional<std::size_t> masks;
        std::size_t classes;
        std::size_t coefficients;
    };
    const Case cases[]{
        {{{"output0", {-1, 116, 8400}}, prototypes}, HeadForm::yolov8, 1, 80, 32},
        {{prototypes, {"output0", {-1, 116, 8400}}}, HeadForm::yolov8, 0, 80, 32},
        {{{"output0", {-1, 25200, 117}}, prototypes}, HeadForm::yolov5, 1, 80, 32},
        {{{"output0", {-1, 300, 38}}, prototypes}, HeadForm::end_to_end, 1, 0, 32},
        {{boxes, labels, scores, {"masks", {-1, 1, 28, 28}}}, HeadForm::lists, 3, 0, 0},
        {{boxes, labels, scores, {"masks", {-1, 1, 640, 640}}}, HeadForm::lists, 3, 0, 0},
        {{{"dets", {-1, 100, 5}}, {"labels", {-1, 100}}, {"masks", {-1, 100, 28, 28}}}, HeadForm::mmdeploy, 2, 0, 0},
        {{{"dets", {-1, 5}}, {"labels", {-1}}, {"masks", {-1, 640, 640}}}, HeadForm::mmdeploy, 2, 0, 0},
        // No prototypes: a map of classes a pixel, and one with too many channels.
        {{{"output0", {-1, 84, 8400}}, {"lanes", {-1, 8, 640, 640}}}, HeadForm::yolov8, std::nullopt, 80, 0},
        {{{"output0", {-1, 84, 8400}}, {"feature", {-1, 256, 160, 160}}}, HeadForm::yolov8, std::nullopt, 80, 0},
    };
    for (const Case& each : cases) {
        SCOPED_TRACE(to_string(each.outputs.front().shape) + " " + to_string(each.form));
        const auto head = recognise_head(each.outputs, 640, 640);
        ASSERT_TRUE(head);
        EXPECT_EQ(head->form, each.form);
        EXPECT_EQ(head->masks, each.masks);
        EXPECT_EQ(head->classes, each.classes);
        EXPECT_EQ(head->coefficients, each.coefficients);
        const auto named = make_head(each.form, each.outputs, 640, 640);
        ASSERT_TRUE(named) << named.error().describe();
        EXPECT_EQ(*named, *head);
    }
}

TEST(Instances, TruthIsReadBesideThePictures) {
    const test::TemporaryFolder folder;
    Json square{{"image_id", 1}, {"category_id", 1}, {"bbox", {1, 1, 2, 2}}, {"area", 4.5}};
    square["segmentation"] = Json::array({{1, 1, 3, 1, 3, 3, 1, 3}});
    Json crowd{{"image_id", 1}, {"category_id", 2}, {"bbox", {0, 0, 5, 4}}, {"iscrowd", 1}};
    crowd["segmentation"] = {{"size", {4, 5}}, {"counts", {0, 20}}};
    Json images = Json::array();
    images.push_back({{"id", 1}, {"file_name", "a.jpg"}, {"height", 4}, {"width", 5}});
    images.push_back({{"id", 2}, {"file_name", "b.jpg"}});
    Json file{{"images", images},
              {"categories", {{{"id", 1}, {"name", "cat"}}, {{"id", 2}, {"name", "dog"}}}},
              {"annotations", {square, crowd}}};
    const auto read = [&] {
        EXPECT_TRUE(write_json_file(folder / "instances.json", file));
        return find_instance_truth(folder.path());
    };
    const auto truth = read();
    ASSERT_TRUE(truth) << truth.error().describe();
    ASSERT_TRUE(*truth);
    const auto objects = (*truth)->of("photos/a.jpg", {5, 4});
    ASSERT_TRUE(objects && *objects);
    ASSERT_EQ((*objects)->size(), 2U);
    EXPECT_EQ((**objects)[0].mask.area(), 4U);
    EXPECT_EQ((**objects)[0].object.area, 4.5) << "as the file has it";
    EXPECT_TRUE((**objects)[1].object.crowd);
    EXPECT_EQ((**objects)[1].object.class_index, 1);
    EXPECT_EQ((**objects)[1].object.area, 20) << "of the mask";
    EXPECT_TRUE((*(*truth)->of("b.jpg", {9, 9}))->empty());
    EXPECT_FALSE(*(*truth)->of("c.jpg", {9, 9}));
    const auto another = (*truth)->of("a.jpg", {4, 5});
    ASSERT_FALSE(another);
    EXPECT_THAT(another.error().describe(), HasSubstr("a.jpg is 4 x 5 pixels, its truth is of 5 x 4"));

    const auto refused = [&](const std::string& message) {
        const auto damaged = read();
        ASSERT_FALSE(damaged);
        EXPECT_EQ(damaged.error().code, ErrorCode::parse_error);
        EXPECT_THAT(damaged.error().describe(), HasSubstr("instances.json"));
        EXPECT_THAT(damaged.error().describe(), HasSubstr(message));
    };
    file["annotations"][1]["segmentation"]["counts"] = {0, 21};
    refused("annotations[1]");
    file["annotations"][1].erase("segmentation");
    refused("annotations[1]");
    file["annotations"][0]["image_id"] = 2;
    refused("\"height\" and \"width\"");
    file["annotations"][0]["segmentation"] = Json::array();
    EXPECT_FALSE(*read()) << "boxes alone";
}

} // namespace
} // namespace lathe
