// dpbench-worker --relay: carries messages between the fronts that an outside launcher has started, over the store
// where their ranks meet. A process beside the workers: it takes no part in what is measured, and outlives them.
//
//   front -> relay   {"to":R,"message":{..}}      R: the rank whose front gets it
//   relay -> front   {"up":true}                  the store has been reached
//                    {"message":{..}}             from a front, in the order in which that one sent
//                    {"lost":"why","usage":false} the store is gone, or was never there; usage: by the user's mistake
#pragma once

namespace dpbench {

int relay();

}  // namespace dpbench
