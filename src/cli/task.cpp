#include "cli/task.hpp"

#include <string>
#include <vector>

#include "evaluate/run.hpp"

namespace lathe::cli {

void add_task_options(CLI::App& command, TaskOptions& task) {
    std::string task_help = "What is measured (default: found by the data)";
    std::vector<std::string> task_names;
    for (const EvaluationTask& each : evaluation_tasks()) {
        task_names.emplace_back(each.name);
        task_help += std::string("; ") + each.name + ": " + each.help;
    }
    command.add_option("--task", task.name, task_help + "; FILE.py:function: a metric of your own, whose code is run")
        ->check([task_names](const std::string& name) {
            return names_a_metric(name) ? std::string() : CLI::IsMember(task_names)(name);
        });
    command.add_option("--output-name", task.output_name, "Output to judge (default: the first)");
    command.add_option("--head", task.head,
                       "Of --task detection and instances: how the outputs hold detections: " + head_form_names() +
                           " (default: recognised by their shapes)");
    command
        .add_option("--score-threshold", task.score_threshold,
                    "Of --task detection, instances and keypoints: the least score of a detection")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    command
        .add_option("--nms-overlap", task.nms_overlap,
                    "Of --task detection, instances and keypoints: a box that overlaps a better one of its class by "
                    "more is dropped")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    command
        .add_option("--ignore-label", task.ignored_label,
                    "Of --task segmentation: the masks' value of pixels that count for nothing")
        ->capture_default_str();
    command
        .add_option("--first-label", task.first_label,
                    "Of --task segmentation: the masks' value of class 0; less is no class")
        ->capture_default_str();
    command
        .add_option("--target-scale", task.target_scale,
                    "Of --task regression: what values of targets in PNG are multiplied by")
        ->capture_default_str();
    command.add_option("--peak", task.peak,
                       "Of --task regression: the largest value there can be, for PSNR (default: of targets in PNG)");
    command.add_option("--characters", task.characters,
                       "Of --task text-recognition: a file with a character a line (default: the model's own)");
    command
        .add_option_function<std::string>(
            "--blank", [&task](const std::string& place) { task.blank_last = place == "last"; },
            "Of --task text-recognition: whether CTC's blank is the first class or the last")
        ->check(CLI::IsMember({"first", "last"}))
        ->default_str("first");
}

} // namespace lathe::cli
