package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/pipeline"
)

// Mermaid draws the graph: solid arrows are rules of next, dotted arrows the destinations
// of agents, and thick arrows lead from a step with max_visits to the step that takes its
// place.
func (p Pipeline) Mermaid() string { return p.draw(path{}) }

// MermaidRun draws the graph with the path of a run. Steps are coloured by how they last
// ended, and the arrows taken are bold. At is the running or next step; stack lists the
// callers that wait.
func (p Pipeline) MermaidRun(trace []pipeline.TraceEntry, at string, stack []string) string {
	way := p.walk(trace, at)
	out := p.draw(way)
	classes := map[string][]string{}
	for _, s := range p.Steps {
		class := "unvisited"
		for _, g := range trace {
			if g.Step == s.Name {
				class = strings.ReplaceAll(string(g.Status), "_", "")
			}
		}
		switch {
		case s.Name == at:
			class = "running"
		case slices.Contains(stack, s.Name):
			class = "callpending"
		}
		classes[class] = append(classes[class], vertex(s.Name))
	}
	for _, c := range colours {
		if names := classes[c.class]; len(names) > 0 {
			out += fmt.Sprintf("    classDef %s %s\n    class %s %s\n", c.class, c.style, strings.Join(names, ","), c.class)
		}
	}
	if taken := way.numbers(p.edges()); len(taken) > 0 {
		out += "    linkStyle " + strings.Join(taken, ",") + " stroke-width:4px\n"
	}
	return out
}

// colours are the styles of steps by their statuses.
var colours = []struct{ class, style string }{
	{"completed", "fill:#d3f9d8,stroke:#2b8a3e,color:#000"},
	{"error", "fill:#ffe3e3,stroke:#c92a2a,color:#000"},
	{"maxiterations", "fill:#fff3bf,stroke:#e67700,color:#000"},
	{"cancelled", "fill:#e9ecef,stroke:#495057,color:#000"},
	{"running", "fill:#d0ebff,stroke:#1971c2,color:#000,stroke-width:4px"},
	{"callpending", "fill:#e5dbff,stroke:#6741d9,color:#000"},
	{"unvisited", "stroke-dasharray:4,opacity:0.6"},
}

func (p Pipeline) draw(way path) string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for _, s := range p.Steps {
		opened, closed := "[", "]"
		switch s.Kind {
		case pipeline.Tools:
			opened, closed = "[[", "]]"
		case pipeline.Session:
			opened, closed = "{{", "}}"
		}
		label := s.Name + "<br/>" + string(s.Kind)
		if s.Agent != "" {
			label += " · " + s.Agent
		}
		if n := way.visits[s.Name]; n > 1 {
			label += fmt.Sprintf(" · %d×", n)
		}
		fmt.Fprintf(&b, "    %s%s%q%s\n", vertex(s.Name), opened, label, closed)
	}
	for _, e := range p.edges() {
		from := "start((start))"
		if e.from != "" {
			from = vertex(e.from)
		}
		fmt.Fprintf(&b, "    %s %s%s %s\n", from, e.arrow, e.label, vertex(e.to))
	}
	return b.String()
}

// Arrows of edges.
const (
	ruleArrow    = "-->"
	agentArrow   = "-.->"
	insteadArrow = "==>"
)

// edge is an arrow of the drawing. From is empty for the start. Rule is the number, from 1,
// of the static rule of its step, or 0 for other arrows.
type edge struct {
	from, to, arrow string
	rule            int
	label           string
}

// edges lists the arrows in the order in which they are drawn, which is how Mermaid numbers
// them.
func (p Pipeline) edges() []edge {
	edges := []edge{{to: p.Start, arrow: ruleArrow}}
	for _, s := range p.Steps {
		for i, n := range s.Next {
			edges = append(edges, edge{s.Name, n.To, ruleArrow, i + 1, n.When.label()})
		}
		for _, to := range s.Destinations {
			edges = append(edges, edge{s.Name, to, agentArrow, 0, ""})
		}
		if v := s.MaxVisits; v != nil && v.Then != "" {
			edges = append(edges, edge{s.Name, v.Then, insteadArrow, 0, fmt.Sprintf(`|"after %d×"|`, v.Count)})
		}
	}
	return edges
}

// label describes the condition at an arrow.
func (c condition) label() string {
	var words []string
	if c.Status != "" {
		words = append(words, c.Status)
	}
	if c.ExitCode != nil {
		words = append(words, "exit code "+strconv.Itoa(*c.ExitCode))
	}
	if c.Failed != nil {
		words = append(words, map[bool]string{true: "failed", false: "not failed"}[*c.Failed])
	}
	if c.TextMatches != "" {
		words = append(words, "text matches "+strings.NewReplacer(`"`, "#quot;", "|", "#124;", "#", "#35;").Replace(c.TextMatches))
	}
	switch {
	case len(words) == 0:
		return ""
	case len(words) == 1 && words[0] == c.Status:
		return "|" + c.Status + "|"
	}
	return `|"` + strings.Join(words, ", ") + `"|`
}

// path is the path of a run through the graph.
type path struct {
	visits map[string]int // entries of each step
	taken  []edge         // edges that were taken, without labels
}

// walk returns the path of a run. A return to a caller takes no arrow.
func (p Pipeline) walk(trace []pipeline.TraceEntry, at string) path {
	way := path{visits: map[string]int{}}
	var stack []string
	enter := func(from, to, arrow string) {
		way.visits[to]++
		way.taken = append(way.taken, edge{from: from, to: to, arrow: arrow})
	}
	for i, g := range trace {
		if i == 0 {
			enter("", g.Step, ruleArrow)
		}
		next := at
		if i+1 < len(trace) {
			next = trace[i+1].Step
		}
		top := len(stack) - 1
		switch {
		case g.Action == pipeline.Call:
			stack = append(stack, g.Step)
			enter(g.Step, g.To, agentArrow)
		case next == "":
		case g.Action == pipeline.Jump:
			p.follow(&way, edge{from: g.Step, to: g.To, arrow: agentArrow})
		case g.Status == pipeline.Failed && next == g.Step: // the step was tried again
		case top >= 0 && stack[top] == next && g.Status != pipeline.Failed:
			stack = stack[:top]
		default:
			p.rule(&way, g, next)
		}
	}
	if len(trace) == 0 && at != "" {
		enter("", at, ruleArrow)
	}
	return way
}

// rule takes the arrow of the first static rule that leads from an ended step to the next
// one. The trace has only the beginning of a text: if no rule matches it, rule assumes that
// one matched a later part.
func (p Pipeline) rule(way *path, g pipeline.TraceEntry, next string) {
	s, _ := p.Step(g.Step)
	for _, matches := range []func(condition) bool{
		func(c condition) bool { return regexp.MustCompile(c.TextMatches).MatchString(g.Text) }, // parsing has checked it
		func(condition) bool { return true },
	} {
		for i, b := range s.Next {
			if b.When.mayFit(g) && matches(b.When) && p.entered(*way, b.To) == next {
				p.follow(way, edge{from: g.Step, to: b.To, arrow: ruleArrow, rule: i + 1})
				return
			}
		}
	}
	way.visits[next]++
}

// mayFit reports whether the condition fits an ended step, ignoring text_matches.
func (c condition) mayFit(g pipeline.TraceEntry) bool {
	failed := g.Failed || g.Status == pipeline.Failed
	return c.fits(end{status: string(g.Status), team: g.Team, failed: failed}) &&
		(c.ExitCode == nil || g.ExitCode != nil && *c.ExitCode == *g.ExitCode)
}

// entered returns the step that the run enters for the destination to, after max_visits.
func (p Pipeline) entered(way path, to string) string {
	for range p.Steps {
		s, _ := p.Step(to)
		if s.MaxVisits == nil || way.visits[to] < s.MaxVisits.Count {
			break
		}
		to = s.MaxVisits.Then
	}
	return to
}

// follow takes an arrow to a step, and the arrows to the steps that took its place.
func (p Pipeline) follow(way *path, e edge) {
	way.taken = append(way.taken, e)
	to := e.to
	for last := p.entered(*way, to); to != last; {
		s, _ := p.Step(to)
		way.taken = append(way.taken, edge{from: to, to: s.MaxVisits.Then, arrow: insteadArrow})
		to = s.MaxVisits.Then
	}
	way.visits[to]++
}

// numbers returns the numbers of the taken arrows among the edges.
func (w path) numbers(edges []edge) []string {
	var numbers []string
	for i, e := range edges {
		e.label = ""
		if slices.Contains(w.taken, e) {
			numbers = append(numbers, strconv.Itoa(i))
		}
	}
	return numbers
}

// vertex returns the identifier of a step in Mermaid, where words such as end
// are reserved.
func vertex(step string) string {
	return "s_" + strings.NewReplacer("-", "_2d", "_", "_5f").Replace(step)
}
