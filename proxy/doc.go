// Package proxy joins trackers, plan and consumers: Services and EndpointSlices go
// in, and a backend follows.
//
// # What it is
//
// A [Proxy] takes objects level by level: SetService is given the current version, new or
// not; DeleteService needs a name only; ReplaceServices takes a relist. No old object is
// needed, the same object twice is harmless, and so is an event that comes late. What
// changed waits in the trackers. A round takes it, makes the next [plan.Plan], and gives each
// consumer the [plan.Delta] from what that consumer may have in place. What a consumer has not acknowledged is remembered
// in one place, its [plan.Cursor].
//
// One Proxy serves one node and both IP families in one loop. It has no
// goroutine of its own: rounds run in the one that calls Run, or Step.
//
// # A round
//
//  1. Take the requests, then the changes of the trackers and the configuration.
//  2. Make the next plan. Its cost is that of what changed.
//  3. Let the Backend write. If it fails, the round ends here; its next Delta is
//     Full, and nothing is lost.
//  4. Tell the Observer how long the changes took, but for the ports that a [plan.PartialError] named.
//  5. Run the other consumers in their order. They see ports that the Backend could not write as
//     they were before. One that fails stops neither the next nor the Backend, and is
//     given its change again.
//
// # When rounds run
//
// Nothing is written or pruned before all gates are open: at a restart the data plane
// keeps what it has until every source has delivered. Then the first round runs, a full
// one. After that:
//
//   - a change: MinInterval after the end of the last round, or at once; all that
//     comes meanwhile is one round
//   - a failure: after a backoff that doubles from MinBackoff to MaxBackoff; each port that the Backend
//     could not write has one of its own, and other rounds leave it out as long as it does not change
//   - FullInterval after the last full round: a full one, for all consumers
//   - [backends.Checker] finds a difference, or somebody calls Trigger: a full one
//   - Step: now
//
// Between rounds the Proxy calls Check and Sweep of a Backend that has them.
//
// What is not here: sources (informers), metrics, and the choice of a backend. The
// [Observer] has what metrics need.
package proxy
