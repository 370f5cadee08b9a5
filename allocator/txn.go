package allocator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Services is where the values of Services come from. It is safe for concurrent
// use if its sources are. What has no source is not to be had: [ErrNoRange].
type Services struct {
	// Addresses has a source for each family of the cluster.
	Addresses map[corev1.IPFamily]Source[netip.Addr]

	// Ports is the source of node ports and health-check node ports.
	Ports Source[uint16]
}

// DryRun returns Services that answer as s does and change nothing, for one
// transaction.
func (s *Services) DryRun(mode DryRunMode) *Services {
	dry := &Services{Addresses: map[corev1.IPFamily]Source[netip.Addr]{}}
	if s == nil {
		return dry
	}
	for f, source := range s.Addresses {
		if source != nil {
			dry.Addresses[f] = source.DryRun(mode)
		}
	}
	if s.Ports != nil {
		dry.Ports = s.Ports.DryRun(mode)
	}
	return dry
}

// A ClaimError says which field of a Service could not get its value.
type ClaimError struct {
	// Path is the field, for instance spec.clusterIPs[1].
	Path *field.Path

	// Value is what was asked for, "" for any.
	Value string

	// Internal says that the user is not to blame: an API server answers with 500
	// and not with 422.
	Internal bool

	// Err is the error of the [Source].
	Err error
}

// Error returns the text, which starts with "allocator: ".
func (e *ClaimError) Error() string {
	return fmt.Sprintf("allocator: service field %s: %v", e.Path, e.Err)
}

// Unwrap returns e.Err.
func (e *ClaimError) Unwrap() error { return e.Err }

// FieldError returns e in the form of API validation.
func (e *ClaimError) FieldError() *field.Error {
	err := e.Err
	if err == nil {
		err = errors.New("no cause was given")
	}
	if e.Internal {
		return field.InternalError(e.Path, err)
	}
	return field.Invalid(e.Path, e.Value, err.Error())
}

// A Txn is a plan whose claims are made and whose releases are not. It ends with
// Commit or Rollback; until then it must not be shared between goroutines.
//
// The safe way to use it is to defer Rollback right after Apply, which does
// nothing once Commit was called, and to call Commit only when the Service is
// known to be stored.
type Txn struct {
	services *Services
	plan     *ServicePlan
	held     []heldClaim
	done     bool
}

// A heldClaim is a claim that was made, with the value it got, and for whom.
type heldClaim struct {
	claim ServiceClaim
	value Value
	owner Owner
}

var errNoPlan = errors.New("allocator: there is no plan")

// Apply makes the claims of plan, in their order. If one fails, or a source
// panics, those before it are released again, latest first, and the error is a
// [*ClaimError]; a value that could not be given back is joined to it.
func (s *Services) Apply(ctx context.Context, plan *ServicePlan) (*Txn, error) {
	if plan == nil {
		return nil, errNoPlan
	}
	if s == nil {
		s = &Services{}
	}
	t := &Txn{services: s, plan: plan}
	if err := t.claimAll(ctx, plan.Claims); err != nil {
		return nil, err
	}
	return t, nil
}

// claimAll makes claims, and rolls the transaction back if it cannot.
func (t *Txn) claimAll(ctx context.Context, claims []ServiceClaim) error {
	return t.orRollback(ctx, func() error { return t.claimEach(ctx, claims) })
}

// orRollback does a step, and rolls the transaction back if that fails or panics.
func (t *Txn) orRollback(ctx context.Context, step func() error) (err error) {
	complete := false
	defer func() {
		if !complete {
			err = errors.Join(err, t.Rollback(context.WithoutCancel(ctx)))
		}
	}()
	err = step()
	complete = err == nil
	return err
}

func (t *Txn) claimEach(ctx context.Context, claims []ServiceClaim) error {
	for _, c := range claims {
		value, err := t.services.claim(ctx, c.Value, t.plan.Owner)
		if err != nil {
			return newClaimError(c, err)
		}
		t.held = append(t.held, heldClaim{c, value, t.plan.Owner})
	}
	return nil
}

// newClaimError says who is to blame as API servers do: the user for what was
// asked for, and for addresses also if there is another reason than a full range.
func newClaimError(c ServiceClaim, err error) *ClaimError {
	e := &ClaimError{Path: c.Path, Err: err}
	switch c.Value.Kind {
	case ClusterIP:
		e.Internal = !c.Explicit() && errors.Is(err, ErrFull)
	case NodePort:
		e.Internal = !c.Explicit()
	case HealthCheckNodePort:
		e.Internal = true
	}
	if c.Explicit() {
		e.Value = c.Value.text()
	}
	return e
}

// Service returns the new object with all values filled in, a copy that belongs
// to the caller; nil if the Service is deleted.
func (t *Txn) Service() *corev1.Service {
	if t.plan.Service == nil {
		return nil
	}
	svc := t.plan.Service.DeepCopy()
	for _, h := range t.held {
		h.fill(svc)
	}
	return svc
}

// fill writes the value into its fields, as far as they exist.
func (h heldClaim) fill(svc *corev1.Service) {
	switch h.value.Kind {
	case ClusterIP:
		if len(h.claim.Entries) != 1 || h.claim.Entries[0] < 0 || h.claim.Entries[0] >= len(svc.Spec.IPFamilies) {
			return
		}
		i := h.claim.Entries[0]
		for len(svc.Spec.ClusterIPs) <= i {
			svc.Spec.ClusterIPs = append(svc.Spec.ClusterIPs, "")
		}
		if svc.Spec.ClusterIPs[i] == "" { // otherwise it stays as the user wrote it
			svc.Spec.ClusterIPs[i] = h.value.Addr.String()
		}
		svc.Spec.ClusterIP = svc.Spec.ClusterIPs[0]
	case NodePort:
		for _, i := range h.claim.Entries {
			if 0 <= i && i < len(svc.Spec.Ports) {
				svc.Spec.Ports[i].NodePort = int32(h.value.Port)
			}
		}
	case HealthCheckNodePort:
		svc.Spec.HealthCheckNodePort = int32(h.value.Port)
	}
}

// Commit releases what the old object had and the new one has not. Call it when
// the new object is stored, or the old one is really gone, after its last
// finalizer. The transaction is over, also if some values could not be released:
// the error names them, and repair will find them. It returns [ErrDone] if the
// transaction was over before.
func (t *Txn) Commit(ctx context.Context) (err error) {
	if t.done {
		return fmt.Errorf("allocator: commit %s: %w", t.plan.Owner, ErrDone)
	}
	t.done = true
	// Deferred, so that a source that panics does not keep the others from theirs.
	for _, v := range slices.Backward(t.plan.Releases) {
		defer func() { err = errors.Join(err, t.services.release(ctx, v, t.plan.Owner)) }()
	}
	return nil
}

// Rollback gives back what Apply claimed, latest first, so that everything is as
// before. It does nothing after Commit or Rollback. The error names values that
// could not be given back. A ctx that is done already may keep it from its work;
// see [context.WithoutCancel].
func (t *Txn) Rollback(ctx context.Context) error {
	if t.done {
		return nil
	}
	t.done = true
	return t.giveBack(ctx, t.held)
}

// giveBack releases held, latest first, even if a source panics.
func (t *Txn) giveBack(ctx context.Context, held []heldClaim) (err error) {
	for _, h := range held {
		defer func() { err = errors.Join(err, t.services.release(ctx, h.value, h.owner)) }()
	}
	return nil
}

// Replan replaces the plan, after the store refused the object because somebody
// else had changed it: plan the change again from what is stored now. Values that
// were claimed are used again where they fit, and given back where not, so that
// nothing leaks and the Service keeps what it was promised. If plan is for another
// Service, one with another UID for instance, all are given back and claimed anew.
// On error, which is as that of Apply, the transaction is rolled back.
func (t *Txn) Replan(ctx context.Context, plan *ServicePlan) error {
	switch {
	case t.done:
		return fmt.Errorf("allocator: replan %s: %w", t.plan.Owner, ErrDone)
	case plan == nil:
		return errors.Join(errNoPlan, t.Rollback(context.WithoutCancel(ctx)))
	case !plan.Owner.Same(t.plan.Owner):
		return t.replanForAnother(ctx, plan)
	}
	left := slices.Clone(t.held)
	kept := make([]*heldClaim, len(plan.Claims))
	for _, fits := range []func(ServiceClaim, heldClaim) bool{fitsExactly, fitsField, fitsKind} {
		for i, c := range plan.Claims {
			at := slices.IndexFunc(left, func(h heldClaim) bool { return fits(c, h) })
			if kept[i] == nil && at >= 0 {
				kept[i] = &heldClaim{c, left[at].value, left[at].owner}
				kept[i].value.Kind = c.Value.Kind
				left = slices.Delete(left, at, at+1)
			}
		}
	}
	var missing []ServiceClaim
	t.held = slices.Clone(left)
	for i, c := range plan.Claims {
		if kept[i] == nil {
			missing = append(missing, c)
		} else {
			t.held = append(t.held, *kept[i])
		}
	}
	t.plan = plan
	if err := t.claimAll(ctx, missing); err != nil {
		return err
	}
	t.held = t.held[len(left):]
	return t.orRollback(ctx, func() error { return t.giveBack(ctx, left) })
}

// replanForAnother is Replan for a plan whose owner cannot have what is held.
func (t *Txn) replanForAnother(ctx context.Context, plan *ServicePlan) error {
	held := t.held
	t.held, t.plan = nil, plan
	if err := t.orRollback(ctx, func() error { return t.giveBack(ctx, held) }); err != nil {
		return err
	}
	return t.claimAll(ctx, plan.Claims)
}

// fitsExactly reports whether c asks for the value that h has.
func fitsExactly(c ServiceClaim, h heldClaim) bool {
	return c.Explicit() && c.Value.Addr == h.value.Addr && c.Value.Port == h.value.Port
}

// fitsField reports whether c takes any value, and h was for the same field.
func fitsField(c ServiceClaim, h heldClaim) bool {
	return fitsKind(c, h) && c.Path.String() == h.claim.Path.String()
}

// fitsKind reports whether c takes any value, and h has one of that kind.
func fitsKind(c ServiceClaim, h heldClaim) bool {
	return !c.Explicit() && c.Value.Family == h.value.Family &&
		(c.Value.Kind == ClusterIP) == (h.value.Kind == ClusterIP)
}

// claim gets want, or any value like it.
func (s *Services) claim(ctx context.Context, want Value, owner Owner) (Value, error) {
	var err error
	if want.Kind == ClusterIP {
		want.Addr, err = claimFrom(ctx, s.Addresses[want.Family], want.Addr, owner)
	} else {
		want.Port, err = claimFrom(ctx, s.Ports, want.Port, owner)
	}
	return want, err
}

func (s *Services) release(ctx context.Context, v Value, owner Owner) error {
	if v.Kind == ClusterIP {
		return releaseTo(ctx, s.Addresses[v.Family], v.Addr, owner)
	}
	return releaseTo(ctx, s.Ports, v.Port, owner)
}

// claimFrom claims value, or picks one if value is zero.
func claimFrom[T comparable](ctx context.Context, source Source[T], value T, owner Owner) (T, error) {
	var zero T
	switch {
	case source == nil:
		return zero, &Error{Op: "claim", Value: "a value for " + owner.String(), Err: ErrNoRange}
	case value == zero:
		return source.Pick(ctx, owner)
	}
	return value, source.Claim(ctx, value, owner)
}

// releaseTo releases value, if there is a source that could have it.
func releaseTo[T any](ctx context.Context, source Source[T], value T, owner Owner) error {
	if source == nil {
		return nil
	}
	return source.Release(ctx, value, owner)
}

// text returns the address or the port number.
func (v Value) text() string {
	if v.Kind == ClusterIP {
		return v.Addr.String()
	}
	return strconv.Itoa(int(v.Port))
}
