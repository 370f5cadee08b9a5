// Package engine is the part of a backend that does not depend on the data plane. Write a
// [Dialect], which compiles, lists and writes, and [New] makes a backend of it: it takes over what an
// earlier process left, shares objects between ports, moves them from one port to another, leaves out what the data
// plane refuses, and says what happened.
//
// # What the engine promises
//
//  1. Who gets an object that several ports claim follows from the set of claims: a claim of the plan comes before a held
//     one, a higher rank before a lower one, a smaller key before a greater one. The order of calls has no part in it.
//  2. A port that cannot be compiled or written stays as it was. Its objects become held claims, which yield to every claim
//     of the plan; Sync names it in a [plan.PartialError].
//  3. Ports of which one gives an object to another are written together. If the data plane refuses them together, each is
//     tried alone.
//  4. After any other error the engine knows that it does not know what is in place: the next Sync lists.
//  5. A Sync that lists ends with exactly what an empty data plane would be given, but for the ports it names.
//
// # What it remembers
//
// Almost nothing: the plan that is in place, the claims for objects that several ports may want ([Object].Shared), and the
// ports that are held. What a port has in place is compiled anew when it changes, so Compile must give the same
// answer for the same plan and port. Ports for which that cannot be ([Options].Remember) are remembered whole.
package engine
