#include "tasks/detection/keypoints.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tasks/detection/pycocotools.hpp"

namespace lathe {
namespace {

std::vector<Keypoint> points_of(const Json& json) {
    std::vector<Keypoint> points;
    for (std::size_t i = 0; i < json.size(); i += 3)
        points.push_back({json[i].get<double>(), json[i + 1].get<double>(), json[i + 2].get<float>()});
    return points;
}

std::vector<PosedPicture> posed_pictures(const Json& json) {
    std::vector<PosedPicture> pictures;
    for (const Json& each : json) {
        PosedPicture picture;
        for (const Json& object : each["truth"]) {
            TruePose pose;
            pose.object.box = test::box_of(object["box"]);
            pose.object.area = object["area"].get<double>();
            pose.object.crowd = object["crowd"].get<bool>();
            pose.points = points_of(object["points"]);
            pose.object.difficult =
                std::ranges::none_of(pose.points, [](const Keypoint& point) { return point.score > 0; });
            picture.truth.push_back(std::move(pose));
        }
        for (const Json& found : each["poses"]) {
            Pose pose;
            pose.detection.score = found["score"].get<float>();
            pose.points = points_of(found["points"]);
            picture.poses.push_back(std::move(pose));
        }
        pictures.push_back(std::move(picture));
    }
    return pictures;
}

/// Of 200 random cases and the degenerate ones, against pycocotools.
TEST(Keypoints, EqualPycocotools) {
    test::compare_with_pycocotools("keypoint_cases.py", [](const Json& each) {
        const auto pictures = posed_pictures(each["pictures"]);
        const AveragePrecision ours = match_poses(pictures).figures();
        // pycocotools': AP, AP50, AP75, medium, large, and recall, its own at 0.5 and 0.75 left out, medium, large.
        const std::pair<double, std::size_t> figures[]{
            {ours.ap, 0},       {ours.ap50, 1},       {ours.ap75, 2},          {ours.ap_medium, 3},
            {ours.ap_large, 4}, {ours.recall_100, 5}, {ours.recall_medium, 8}, {ours.recall_large, 9}};
        for (const auto& [mine, index] : figures)
            EXPECT_NEAR(mine, each["figures"][index].get<double>(), 1e-6) << "figure " << index;
    });
}

std::vector<float> anchor(float x, float score) {
    std::vector<float> values{x, 50, 20, 40, score};
    for (std::size_t k = 0; k < 17; ++k)
        values.insert(values.end(), {x + static_cast<float>(k), 40, 0.9F});
    return values;
}

TEST(Keypoints, HeadsAreDecoded) {
    const auto head = pose_head(std::vector<OutputShape>{{"out", {-1, 56, 8400}}}, 640, 640);
    ASSERT_TRUE(head) << head.error().describe();
    EXPECT_EQ(head->points, 17U);
    EXPECT_TRUE(head->anchors_last);
    EXPECT_FALSE(head->end_to_end);
    EXPECT_FALSE(pose_head(std::vector<OutputShape>{{"out", {-1, 84, 8400}}}, 640, 640))
        << "84 - 5 is no multiple of 3";

    // Three anchors: one, a worse one in the same place, one elsewhere; the second sample has none.
    HostTensor output("out", DataType::float32, {2, 56, 60});
    const std::vector<float> anchors[]{anchor(100, 0.9F), anchor(101, 0.6F), anchor(300, 0.7F)};
    for (std::size_t a = 0; a < 3; ++a) {
        for (std::size_t v = 0; v < 56; ++v)
            output.as<float>()[v * 60 + a] = anchors[a][v];
    }
    auto poses = decode_poses(*head, {&output, 1}, 0, {0.25F, 0.65F, 10});
    ASSERT_TRUE(poses) << poses.error().describe();
    ASSERT_EQ(poses->size(), 2U);
    EXPECT_EQ((*poses)[0].detection.box, (Box{90, 30, 20, 40}));
    EXPECT_FLOAT_EQ((*poses)[0].detection.score, 0.9F);
    ASSERT_EQ((*poses)[0].points.size(), 17U);
    EXPECT_EQ((*poses)[0].points[3].x, 103);
    EXPECT_FLOAT_EQ((*poses)[1].detection.score, 0.7F);
    EXPECT_TRUE(decode_poses(*head, {&output, 1}, 1, {0.25F, 0.65F, 10})->empty());
    EXPECT_FALSE(decode_poses(*head, {&output, 1}, 2, {0.25F, 0.65F, 10})) << "there is no third sample";
    Preprocess preprocess;
    preprocess.letterbox = Preprocess::Size{640, 640};
    map_back(*poses, preprocess.mapping(1280, 1280));
    EXPECT_EQ((*poses)[0].detection.box, (Box{180, 60, 40, 80}));
    EXPECT_EQ((*poses)[0].points[3].x, 206);

    const auto end = pose_head(std::vector<OutputShape>{{"out", {1, 300, 57}}}, 640, 640);
    ASSERT_TRUE(end && end->end_to_end);
    HostTensor rows("out", DataType::float32, {1, 300, 57});
    std::vector<float> row{90, 30, 110, 70, 0.8F, 0};
    for (std::size_t k = 0; k < 17; ++k)
        row.insert(row.end(), {static_cast<float>(k), 1, 0.5F});
    std::ranges::copy(row, rows.as<float>().begin());
    const auto one = decode_poses(*end, {&rows, 1}, 0, {0.25F, 0.65F, 10});
    ASSERT_TRUE(one && one->size() == 1);
    EXPECT_EQ(one->front().detection.box, (Box{90, 30, 20, 40}));
    EXPECT_EQ(one->front().points[16].x, 16);
}

TEST(Keypoints, TruthIsReadBesideThePictures) {
    const test::TemporaryFolder folder;
    Json person{{"image_id", 1}, {"category_id", 1}, {"bbox", {10, 10, 20, 30}}, {"area", 400}};
    person["keypoints"] = {1, 2, 2, 0, 0, 0};
    Json crowd{{"image_id", 1}, {"category_id", 1}, {"bbox", {0, 0, 90, 90}}, {"iscrowd", 1}};
    Json dog{{"image_id", 1}, {"category_id", 2}, {"bbox", {5, 5, 5, 5}}};
    Json file{{"images", {{{"id", 1}, {"file_name", "a.jpg"}}, {{"id", 2}, {"file_name", "b.jpg"}}}},
              {"categories", {{{"id", 1}, {"name", "person"}}, {{"id", 2}, {"name", "dog"}}}},
              {"annotations", {dog, person, crowd}}};
    ASSERT_TRUE(write_json_file(folder / "person_keypoints.json", file));
    const auto truth = find_keypoint_truth(folder.path());
    ASSERT_TRUE(truth) << truth.error().describe();
    ASSERT_TRUE(*truth);
    EXPECT_EQ((*truth)->points, 2U);
    const auto first = (*truth)->of("a.jpg");
    ASSERT_TRUE(first);
    ASSERT_EQ(first->size(), 2U) << "the dog has no keypoints";
    EXPECT_EQ((*first)[0].points[0].x, 1);
    EXPECT_FALSE((*first)[0].object.difficult);
    EXPECT_TRUE((*first)[1].object.crowd);
    EXPECT_TRUE((*first)[1].object.difficult) << "without a labelled point";
    EXPECT_TRUE((*truth)->of("b.jpg")->empty());
    EXPECT_FALSE((*truth)->of("c.jpg"));

    file["annotations"][1]["keypoints"] = {1, 2, "x", 0, 0, 0};
    ASSERT_TRUE(write_json_file(folder / "person_keypoints.json", file));
    const auto damaged = find_keypoint_truth(folder.path());
    ASSERT_FALSE(damaged);
    EXPECT_THAT(damaged.error().describe(), testing::HasSubstr("annotations[1]"));
    file["annotations"][1]["keypoints"] = {1, 2, 2, 0};
    ASSERT_TRUE(write_json_file(folder / "person_keypoints.json", file));
    EXPECT_FALSE(find_keypoint_truth(folder.path()));
    file["annotations"][1].erase("keypoints");
    ASSERT_TRUE(write_json_file(folder / "person_keypoints.json", file));
    EXPECT_FALSE(*find_keypoint_truth(folder.path())) << "boxes alone";
}

} // namespace
} // namespace lathe
