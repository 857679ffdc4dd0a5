#pragma once

#include <filesystem>
#include <string>

#include "report/document.hpp"
#include "support/json.hpp"
#include "support_lib/places.hpp"

namespace lathe::test {

/// The made-up results beside this file.
inline Json sample() {
    auto json = read_json_file(test::source_path("tests/report/sample.json"));
    return json ? std::move(*json) : Json();
}

/// What `lathe eval --task squad` writes for SQuAD 2.0.
inline Json squad_eval() {
    return Json::parse(R"({"kind": "eval", "version": 1, "task": "squad", "squad_version": "2.0", "windows": 1234,
      "data": {"path": "dev-v2.0.json", "digest": "d", "samples": 1000},
      "subjects": [
        {"name": "fp32", "precision": "fp32", "samples": 1000, "exact": 0.7525, "exact_ci95": [0.72, 0.78],
         "f1": 0.8125, "f1_ci95": [0.79, 0.83], "nonfinite_samples": 0,
         "has_answer": {"samples": 500, "exact": 0.71, "f1": 0.83}, "no_answer": {"samples": 500, "exact": 0.795, "f1": 0.795}},
        {"name": "int8", "precision": "int8", "samples": 1000, "exact": 0.75, "exact_ci95": [0.72, 0.78],
         "f1": 0.81, "f1_ci95": [0.79, 0.83], "nonfinite_samples": 0,
         "has_answer": {"samples": 500, "exact": 0.7, "f1": 0.82}, "no_answer": {"samples": 500, "exact": 0.8, "f1": 0.8},
         "vs_reference": {"reference": "fp32", "agreement": 0.95, "agreement_ci95": [0.93, 0.96], "exact_delta": -0.0025,
                          "f1_delta": -0.0025, "f1_delta_ci95": [-0.008, 0.003]}}]})");
}

/// What `lathe eval` writes of detectors.
inline Json detection_eval() {
    return Json::parse(R"json({"kind": "eval", "version": 1, "task": "detection", "head": "yolox",
      "metric": {"name": "mAP", "key": "map"}, "heading": "Detection on 80 pictures (COCO)",
      "columns": {"subjects": [{"title": "mAP 0.50:0.95", "key": "map", "format": "share", "digits": 2}],
                  "vs_reference": [{"title": "mAP change", "key": "map_delta", "format": "points", "digits": 2},
                                   {"title": "same detections", "key": "agreement", "format": "share", "digits": 1}]},
      "class_names": ["cat"], "data": {"path": "coco", "digest": "d", "samples": 80},
      "subjects": [
        {"name": "fp32", "precision": "fp32", "samples": 80, "map": 0.3, "map_ci95": [0.27, 0.36]},
        {"name": "int8", "precision": "int8", "samples": 80, "map": 0.299, "map_ci95": [0.27, 0.35],
         "vs_reference": {"reference": "fp32", "map_delta": -0.001, "map_delta_ci95": [-0.006, 0.004], "agreement": 0.95},
         "worst": [{"sample": "a.jpg", "agreement": 0.25, "width": 4, "height": 2,
                    "picture": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
                    "reference_boxes": [{"box": [1, 0, 2, 1], "score": 0.9, "class": 0}], "subject_boxes": []}]}]})json");
}

/// What `lathe eval --task similarity` writes.
inline Json similarity_eval() {
    return Json::parse(R"({"kind": "eval", "version": 1, "task": "similarity", "score": "cosine",
      "data": {"path": "sts.tsv", "digest": "d", "samples": 1379, "cut_samples": 7, "token_limit": 64},
      "subjects": [
        {"name": "fp32", "precision": "fp32", "samples": 1379, "spearman": 0.8203, "spearman_ci95": [0.8, 0.838],
         "pearson": 0.8274, "pearson_ci95": [0.81, 0.844], "nonfinite_samples": 0},
        {"name": "int8", "precision": "int8", "samples": 1379, "spearman": 0.8194, "spearman_ci95": [0.8, 0.837],
         "pearson": 0.8266, "pearson_ci95": [0.809, 0.843], "nonfinite_samples": 0,
         "vs_reference": {"reference": "fp32", "texts": 2758, "cosine": 0.998, "least_cosine": 0.97654, "sqnr_db": 23.5,
                          "max_abs_error": 0.02, "rank_agreement": 0.99876, "spearman_delta": -0.0009,
                          "spearman_delta_ci95": [-0.0027, 0.0008]}}]})");
}

/// What `lathe profile-data` writes.
inline Json text_lengths() {
    return Json::parse(R"({"kind": "lengths", "version": 1, "command": "lathe profile-data m.onnx --data t.tsv",
      "model": "m.onnx", "data": "t.tsv", "samples": 60, "batch": 1, "tokens": 1000, "mean": 16.7, "shortest": 3,
      "longest": 90, "percentiles": {"p50": 14, "p75": 20, "p90": 31, "p95": 40, "p99": 88}, "limit": 64,
      "longer_than_limit": 1, "tokenizer_limit": 512, "at_tokenizer_limit": 0,
      "histogram": [[3, 10], [14, 30], [31, 19], [90, 1]],
      "own": {"computed_tokens": 1000, "padding_share": 0.0, "padding_over_real": 0.0},
      "proposals": [
        {"computed_tokens": 5400, "padding_share": 0.8148, "padding_over_real": 4.4, "buckets": [90], "chosen": false},
        {"computed_tokens": 1900, "padding_share": 0.4737, "padding_over_real": 0.9, "buckets": [31, 90], "chosen": true}],
      "chosen": "31,90",
      "shapes": {"dynamic": "--shape input_ids:1x3..1x14..1x90", "profiles": [], "static": []}})");
}

inline Result<Json> document_of(Json json, const report::DocumentOptions& options = {}) {
    std::vector<report::Input> inputs;
    inputs.push_back({"sample.json", std::move(json)});
    return report::make_document(std::move(inputs), options);
}

} // namespace lathe::test
