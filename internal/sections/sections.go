// Package sections reads and writes text files that consist of sections, the form of our
// scenario files:
//
//	what the file is about
//
//	-- name --
//	text of the section
//
//	-- another name --
//
// A line is a marker if it begins with "-- ", ends with " --" and has a name between.
// There is no way to escape one. The form is that of txtar, so editors know it.
package sections

import "strings"

// A File is a text with sections.
type File struct {
	About    string // the text before the first section
	Sections []Section
}

// A Section is a named part of a File. Several may have one name.
type Section struct {
	Name string
	Text string // ends with a newline, or is empty
}

// Parse reads a file. Every text is one.
func Parse(data string) File {
	var f File
	at := &f.About
	for line := range strings.Lines(data) {
		if name, ok := marker(line); ok {
			f.Sections = append(f.Sections, Section{Name: name})
			at = &f.Sections[len(f.Sections)-1].Text
			continue
		}
		*at += line
	}
	f.About = ended(f.About)
	for i := range f.Sections {
		f.Sections[i].Text = ended(f.Sections[i].Text)
	}
	return f
}

// marker returns the name in a marker line.
func marker(line string) (name string, ok bool) {
	line = strings.TrimRight(line, "\r\n")
	if len(line) < len("--  --") || !strings.HasPrefix(line, "-- ") || !strings.HasSuffix(line, " --") {
		return "", false
	}
	name = strings.TrimSpace(line[len("-- ") : len(line)-len(" --")])
	return name, name != ""
}

// ended returns text with a newline at its end, unless it is empty.
func ended(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// String returns the text of the file, which Parse reads again.
func (f File) String() string {
	var b strings.Builder
	b.WriteString(ended(f.About))
	for _, s := range f.Sections {
		b.WriteString("-- " + s.Name + " --\n" + ended(s.Text))
	}
	return b.String()
}
