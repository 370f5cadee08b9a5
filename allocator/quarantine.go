package allocator

// cool moves n from free to quarantined; mu must be held.
func (b *book) cool(n uint64) {
	until := b.opts.Now().Add(b.opts.Quarantine)
	b.set.add(n)
	b.cooling[n] = until
	b.queue = append(b.queue, cooled{n, until})
	s := b.band(n)
	s.Free--
	s.Quarantined++
}

// warm moves n from quarantined to free; mu must be held. Its entry in the
// queue stays and is recognised by its time.
func (b *book) warm(n uint64) {
	delete(b.cooling, n)
	b.set.remove(n)
	s := b.band(n)
	s.Quarantined--
	s.Free++
}

// expire ends what quarantine is over; mu must be held. Each number is looked at
// once, so the cost is paid by its release.
func (b *book) expire() {
	if len(b.queue) == 0 {
		return
	}
	now := b.opts.Now()
	for len(b.queue) > 0 && !b.queue[0].until.After(now) {
		head := b.queue[0]
		b.queue = b.queue[1:]
		if until, ok := b.cooling[head.n]; ok && until.Equal(head.until) {
			b.warm(head.n)
		}
	}
}
