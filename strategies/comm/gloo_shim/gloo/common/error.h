#pragma once  // empty stand-in for Gloo's header: ProcessGroupGloo.hpp includes it but uses nothing from it
