// Package shadow gives the inputs of upstream's code to vipkit, too, and records
// whether both answer the same.
//
// Adapters inside a copy of upstream's packages (folder _overlay) take the place of
// upstream's functions. They call what they replaced, translate its answer into the
// types of this package, and hand both to it. So everything that compares is here,
// and the adapters hold what needs upstream's types.
//
// An answer that differs gets the id of the difference it is known as, or
// [Unexplained]. The reasons are in differences.txt, which the command checks.
package shadow
