package progress

// Hold says why a session stands still until a person lets it go on.
type Hold struct {
	Why     string // what it stands still for
	Release string // the command that lets it go on, and what else does
}

// words say both on one line.
func (h Hold) words() string { return Line(h.Why) + "; " + Line(h.Release) }

// holdLines are both on lines of their own, so that a narrow screen does not
// cut the command off.
func holdLines(holds []Hold, color bool) []string {
	var lines []string
	for _, h := range holds {
		lines = append(lines, "  "+yellow.on(Line(h.Why), color), "    "+yellow.on(Line(h.Release), color))
	}
	return lines
}
