#pragma once

/// Marks what liblathe.so exports; everything else in it is hidden.
#define LATHE_API __attribute__((visibility("default")))
