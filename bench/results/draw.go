package results

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// Draw writes growth curves to a folder, one SVG file for each plane and step.
func (r *Run) Draw(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range r.charts() {
		if err := os.WriteFile(filepath.Join(dir, c.file), c.svg(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// A point is a number of Services and a time in seconds, or a place in the picture.
type point struct{ x, y float64 }

// A curve is one line of a chart.
type curve struct {
	name, colour string
	points       []point
}

// A chart has logarithmic axes.
type chart struct {
	file, title string
	curves      []curve
}

// charts returns what has at least two sizes.
func (r *Run) charts() []chart {
	var out []chart
	for _, plane := range []string{"nftables", "iptables"} {
		for _, step := range []struct{ name, file string }{{firstSync, "first-sync"}, {oneEndpoint, "one-endpoint"}, {restart, "restart"}} {
			c := chart{file: plane + "-" + step.file + ".svg", title: plane + ": " + step.name}
			for _, who := range []curve{{name: kubeProxy, colour: "#c0392b"}, {name: vipkit, colour: "#1f6fb2"}} {
				who.points = r.points(who.name, plane, step.name)
				if len(who.points) > 0 {
					c.curves = append(c.curves, who)
				}
			}
			if slices.ContainsFunc(c.curves, func(c curve) bool { return len(c.points) > 1 }) {
				out = append(out, c)
			}
		}
	}
	return out
}

func (r *Run) points(proxy, plane, step string) []point {
	var out []point
	for _, c := range r.Cases {
		if c.Part != Control || c.Plane != plane || c.Name != step || c.Endpoints != usual {
			continue
		}
		if y, n := c.Median(proxy, Wall); n > 0 {
			out = append(out, point{float64(c.Services), y})
		}
	}
	slices.SortFunc(out, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	return out
}

// Measures of the picture in pixels.
const (
	width, height           = 640, 400
	left, right, top, under = 80, 20, 44, 52
)

// A scale maps values to pixels by their logarithm.
type scale struct {
	low, high float64 // powers of ten
	from, to  float64 // pixels
}

// newScale rounds the range of the values outward to powers of ten.
func newScale(values []float64, from, to float64) scale {
	low, high := math.Floor(math.Log10(slices.Min(values))), math.Ceil(math.Log10(slices.Max(values)))
	return scale{low, max(high, low+1), from, to}
}

func (s scale) at(v float64) float64 {
	return s.from + (s.to-s.from)*(math.Log10(v)-s.low)/(s.high-s.low)
}

// ticks returns the powers of ten.
func (s scale) ticks() []float64 {
	var out []float64
	for e := s.low; e <= s.high; e++ {
		out = append(out, math.Pow(10, e))
	}
	return out
}

func (c chart) svg() []byte {
	var xs, ys []float64
	for _, line := range c.curves {
		for _, p := range line.points {
			xs, ys = append(xs, p.x), append(ys, p.y)
		}
	}
	x, y := newScale(xs, left, width-right), newScale(ys, height-under, top)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	text(&b, point{width / 2, 24}, "middle", c.title)
	text(&b, point{(left + width - right) / 2, height - 12}, "middle", "Services, 10 endpoints each")
	for _, v := range x.ticks() {
		rule(&b, point{x.at(v), top}, point{x.at(v), height - under})
		text(&b, point{x.at(v), height - under + 18}, "middle", thousands(v))
	}
	for _, v := range y.ticks() {
		rule(&b, point{left, y.at(v)}, point{width - right, y.at(v)})
		text(&b, point{left - 8, y.at(v) + 4}, "end", seconds(v))
	}
	for i, line := range c.curves {
		line.draw(&b, x, y)
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="12" height="4" fill="%s"/>`+"\n", left+12, top+14+18*i, line.colour)
		text(&b, point{left + 30, float64(top + 20 + 18*i)}, "start", line.name)
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func (c curve) draw(b *bytes.Buffer, x, y scale) {
	fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2" points="`, c.colour)
	for _, p := range c.points {
		fmt.Fprintf(b, "%.1f,%.1f ", x.at(p.x), y.at(p.y))
	}
	b.WriteString(`"/>` + "\n")
	for _, p := range c.points {
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`+"\n", x.at(p.x), y.at(p.y), c.colour)
		text(b, point{x.at(p.x), y.at(p.y) - 9}, "middle", seconds(p.y))
	}
}

func rule(b *bytes.Buffer, from, to point) {
	fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", from.x, from.y, to.x, to.y)
}

func text(b *bytes.Buffer, at point, anchor, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", at.x, at.y, anchor, html.EscapeString(s))
}
