// Prefixes the message of an error with the place in a step where it occurred, such as a rank and a collective.
#pragma once

#include <new>
#include <stdexcept>
#include <string>

#include <c10/util/Exception.h>

#include "workloads/base/error.h"

namespace dpbench {

// Returns call(). If call() throws, throws an error with the same message after the prefix what(). An out-of-memory
// error keeps a type that callers can recognise, and a UsageError is not changed.
template <class What, class Call>
auto naming_errors(const What& what, const Call& call) -> decltype(call()) {
  const auto named = [&](const char* message) { return what() + ": " + message; };
  try {
    return call();
  } catch (const UsageError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw OutOfHostMemory(what());
  } catch (const c10::OutOfMemoryError& error) {
    throw c10::OutOfMemoryError(named(error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    throw c10::Error(named(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw std::runtime_error(named(error.what()));
  }
}

}  // namespace dpbench
