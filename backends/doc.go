// Package backends has the interface between a plan and a data plane, and says how to
// write an implementation. Its folders hold those of this module.
//
// # What a backend is given
//
// A [Backend] turns rows into rules: [plan.Port] has the frontends of a Service
// port, for each frontend one action per origin of a packet, and the two pools of endpoints
// that actions name. Which endpoints a node uses, what is rejected, dropped or masqueraded
// is decided there already. A backend that looks at traffic policies, conditions or hints
// does something twice.
//
// # How to write a backend
//
// Write a dialect for package [github.com/vipkit/vipkit/backends/engine], which has everything that backends have in common: taking over what an
// earlier process left, objects that several ports share, addresses that move between Services, ports that
// the data plane refuses, errors and statistics. The folder examples/custombackend is such a backend, in 80 lines. Step by step:
//
// First choose the objects of your data plane: an ID says which object it is, and a value what is in it. Here both are
// structs: a Match is the address, protocol and port of packets, a Flow what happens to them.
//
//	type (
//		object = engine.Object[Match, Flow]
//		edit   = engine.Edit[Match, Flow]
//	)
//
//	type Backend struct {
//		*engine.Engine[Match, Flow]
//	}
//
//	func NewBackend(s *Switch) *Backend {
//		return &Backend{engine.New(dialect{s}, engine.Options{Name: "custombackend"})}
//	}
//
//	type dialect struct{ s *Switch }
//
// Compile returns the objects of one Service port, and for a nil port those that belong to no port, such as
// the addresses of the node. The ID of a frontend has one owner, which the plan chose. An object that several ports may want,
// like the one that refuses the unused ports of a ClusterIP, is Shared: it goes when the last of them goes.
//
//	func (dialect) Compile(p *plan.Plan, port *plan.Port, _ []object) ([]object, error) {
//		if port == nil {
//			return []object{{Value: Flow{Node: p}}}, nil
//		}
//		var out []object
//		for _, fe := range port.Frontends {
//			out = append(out, object{ID: Match{fe.Addr, port.Family, port.Protocol, fe.Port}, Value: Flow{Port: port, Frontend: fe}})
//			if fe.Kind == plan.ClusterIP {
//				out = append(out, object{ID: Match{Addr: fe.Addr, Family: port.Family}, Shared: true})
//			}
//		}
//		return out, nil
//	}
//
// Equal saves writes. The engine compiles the old version of a port again rather than remember it, so Compile must depend on its arguments
// only.
//
//	func (dialect) Equal(a, b Flow) bool {
//		return a.Port == b.Port && (a.Node == b.Node || reflect.DeepEqual(a.Node.Config(), b.Node.Config()))
//	}
//
// List yields all that is there under your name, and is called only when that is unknown. What cannot be read is an error, never an
// empty list.
//
//	func (d dialect) List(context.Context) (iter.Seq2[Match, Flow], error) { return d.s.Flows() }
//
// Write makes edits, in the order in which no packet meets half of a Service: additions before removals, pools before the
// frontends that name them. If a part is impossible, its error wraps [engine.ErrRefused], and the engine finds out which port it
// was and goes on with the others. A data plane without transactions has done a part by then, and wraps [engine.ErrHalfway] too.
//
//	func (d dialect) Write(_ context.Context, edits []edit) error {
//		for _, x := range edits {
//			if x.New == nil {
//				continue
//			}
//			if err := d.s.Put(x.ID, *x.New); err != nil {
//				return fmt.Errorf("put %v: %w, %w: %w", x.ID, engine.ErrRefused, engine.ErrHalfway, err)
//			}
//		}
//		... and the same for removals
//	}
//
// Last, let the conformance suite judge it: see below.
//
// # Without the engine
//
// A backend that has an engine of its own keeps this contract.
//
// What Sync is given is a [plan.Delta]:
//
//   - New is the desired state as a whole. Changes name the ports that may differ
//     from what is in place; each has its new version and, in Before, all versions
//     that may be there: the last one that was acknowledged and those that were attempted
//     since. Removing what any version in Before made, and After does not need, is always right.
//   - If neither Full nor Config is true, look at Changes only: a Sync costs what changed,
//     not what exists. Read nothing back from the data plane; remember what was committed.
//   - If Full is true, what is in place is unknown. List it, keep what is right, add what
//     is missing, remove what is ours and not wanted. The first Delta after a start is Full
//     too, so a restart must not cut a connection that the plan still allows.
//   - Base is the plan that the caller believes to be in place. A backend that keeps a
//     state of its own and did not commit that very plan (it was made anew, or
//     serves a second caller) treats the Delta as Full.
//   - If Config is true, the node's addresses, pod ranges, Service ranges or options
//     may differ from Base's; New.Config has them.
//
// What Sync returns is a promise:
//
//   - nil: the data plane equals New.
//   - [plan.PartialError]: it equals New but for the ports named, which stay as they were;
//     they come again in a later Delta, at once if they change, and the other consumers meanwhile see their
//     old version. Use it when the data plane refuses one Service, so that it does not stop
//     the others. An error that wraps [errors.ErrUnsupported], such as a [LimitError], says that it is a matter of
//     the port; any other one makes the node unhealthy if it lasts.
//   - Any other error: nobody knows. The next Delta is Full, and its Before
//     has what this call tried.
//
// A context that is done ends the work between two atomic steps, never inside one.
//
// # Optional abilities
//
// They are found by type assertion.
//
//   - A [Prober] says before the first Sync what the machine lacks, best as one [UnsupportedError] for each thing.
//   - A [Checker] compares the data plane cheaply with what it wrote. A backend that its data plane notifies
//     can instead have its user call proxy.Proxy.Trigger.
//   - A [Sweeper] removes endpoints when their connections have ended.
//   - A [Reporter] gives the numbers of each Sync, as [Stats].
//   - A [Preparer] sets what it needs of the node, and a [Warner] says what is not as it should be.
//
// proxy.Proxy uses the first four. Preparer and Warner are for the program around it: examples/agent shows how.
//
// # Checklist
//
//  1. Own your objects by name: a table, a chain prefix, a protocol number of routes. The option
//     Name chooses the name. Touch nothing else, not even to read it if the data plane can avoid it.
//  2. Both families and all protocols go through one Backend; commit them together if the
//     data plane can.
//  3. No client meets a half-written Service: pools before the frontends that name them, frontends
//     before the pools that nobody names any more.
//  4. The same Delta twice is harmless. Already there and already gone are successes; another
//     value under the same key is not.
//  5. Removal is the harder half: frontends, pools, affinity and addresses go when
//     the last version that needed them goes.
//  6. Cleanup works in a new process, with no Sync before.
//  7. No goroutine that outlives a call unless the type has a method that ends it, no
//     package variable, no process exit.
//  8. Test it as the next section says.
//
// # How to test a backend
//
// The suite of backends/backendtest needs one function: New, or Node for a data plane of your own.
//
//	func TestConformance(t *testing.T) {
//		backendtest.Run(t, backendtest.Config{
//			New: func(t *testing.T) backends.Backend { return mine.New() },
//		})
//	}
//
// It makes a node, pods, another node and clients in network namespaces, plays more than a hundred
// scenarios, dials every kind of frontend from every origin over IPv4 and IPv6, TCP, UDP and SCTP, and holds who
// answered, which source address it saw and what was refused against expectations that were written by hand.
// Connections are made all the time while Services change. A new instance takes over what the old one
// left, and Cleanup is tried. So the suite covers rules 3 to 6 and the meaning of a plan. Useful beside it:
//
//   - One scenario: go test -run 'TestConformance/hairpin'. With a method Dump(context.Context) string the
//     backend shows its rules when one fails; the plan and the packet are shown in any case.
//   - A data plane in memory, or one in a simulator, has a method Trace(plan.Packet) plan.Trace, which is asked
//     instead of sending packets: no kernel, no rights, seconds for all scenarios.
//   - What a data plane cannot do is declared in Limits, and the scenarios say what happens then.
//   - Scenarios of your own are files of the same kind, given as Config.Scenarios; backendtest.Scenarios has
//     those of the suite to copy from.
//   - func TestMain(m *testing.M) { netlab.Main(m) } runs all tests of a package where a mistake cannot reach
//     the rules of your own machine.
//   - VIPKIT_REQUIRE_KERNEL=1 turns a skipped test into a failure. Use it in continuous integration.
//
// Put something between your backend and its data plane that fails when it is told to, and make it a backendtest.Faulter: then the suite
// lets every write fail in turn, refuses Services, moves addresses while one side is refused, and lets reads fail. One more test is
// yours: count what a change of one endpoint writes among ten and among ten thousand Services. It is the same number, and
// nothing is read.
//
// Then show that the tests can fail: break the backend on purpose, for example swap reject and drop or leave out the masquerading,
// and see a scenario fail. hack/mutate does so for the backends here and for what they are made of.
//
// Package backends/fake is a backend for the tests of your own program: it fails as it is told to.
package backends
