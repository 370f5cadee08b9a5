package plan

// postpone chooses the ports that d leaves out.
func (c *Cursor) postpone(d *Delta) {
	later := c.later
	c.later, c.postponed = nil, nil
	if d.Full || later == nil {
		return
	}
	c.postponed = map[Key]struct{}{}
	for k, u := range c.unsure {
		if later(k) && d.New.Port(k).equal(u.wanted) {
			c.postponed[k] = struct{}{}
		}
	}
	for c.wakeSome(d) {
		continue // who is woken may wake others
	}
}

// wakeSome takes back what would be in the way of another port of d, and reports whether there was
// anything.
func (c *Cursor) wakeSome(d *Delta) (some bool) {
	for k := range c.postponed {
		if c.inTheWay(d, k) {
			delete(c.postponed, k)
			some = true
		}
	}
	return some
}

// inTheWay reports whether an address that a port may have in place belongs to another port
// that d has to write.
func (c *Cursor) inTheWay(d *Delta, k Key) bool {
	for _, v := range c.unsure[k].versions {
		for i := range v.Frontends {
			owner, _ := d.New.owner(siteOf(&v.Frontends[i], k))
			if owner != nil && owner.Key != k && c.writes(owner.Key) {
				return true
			}
		}
	}
	return false
}

// writes reports whether the next Delta has to write a port.
func (c *Cursor) writes(k Key) bool {
	if _, later := c.postponed[k]; later {
		return false
	}
	_, asked := c.asked.ports[k]
	_, failed := c.unsure[k]
	return asked || failed
}
