package healthcheck_test

import "testing"

// TestMaxSockets gives three Services two sockets each, of which five may be open.
func TestMaxSockets(t *testing.T) {
	r := newRig(t)
	r.Close()
	r.maxSockets = 5
	r.start(t)
	const tooMany = ": healthcheck: listen for ns1/"
	r.svc("a", 31001, "10.200.0.1").svc("b", 31002, "10.200.0.1").svc("c", 31003, "10.200.0.1")
	r.sync(t)
	a, b, c4, c6 := []string{"tcp4 192.0.2.10:31001", "tcp6 [2001:db8:1::10]:31001"}, []string{"tcp4 192.0.2.10:31002", "tcp6 [2001:db8:1::10]:31002"},
		"tcp4 192.0.2.10:31003", "tcp6 [2001:db8:1::10]:31003"
	r.want(t, append(append([]string{c4}, a...), b...)...)
	r.wantChanges(t, "c"+tooMany+"c: [2001:db8:1::10]:31003: 5 sockets are open, no more may be")
	r.svc("b", 31002, "10.200.0.2") // does not change what is open, nor what was reported
	r.sync(t)
	r.wantChanges(t)
	r.without("a")
	r.sync(t)
	r.want(t, append([]string{c4, c6}, b...)...)
	r.wantChanges(t, "c: ok")
}
