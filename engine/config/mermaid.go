package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"conclave/engine/pipeline"
)

// Mermaid draws the graph: solid arrows are rules of next, dotted arrows the destinations of agents, and
// thick arrows lead from a step with max_visits to the step that takes its place. Arrows with a circle lead into branches.
func (p Pipeline) Mermaid() string { return p.drawGraph(path{}) }

// MermaidRun draws the graph with the path of a run. Steps are coloured by how they last
// ended, and the arrows between the steps that it took are bold. At is the running or next step;
// stack lists the callers that wait.
func (p Pipeline) MermaidRun(trace []pipeline.TraceEntry, at string, stack []string) string {
	way := p.walkTrace(trace, at)
	out := p.drawGraph(way)
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
		classes[class] = append(classes[class], vertexID(s.Name))
	}
	for _, c := range colours {
		if names := classes[c.class]; len(names) > 0 {
			out += fmt.Sprintf("    classDef %s %s\n    class %s %s\n", c.class, c.style, strings.Join(names, ","), c.class)
		}
	}
	if taken := way.takenNumbers(p.listEdges()); len(taken) > 0 {
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

func (p Pipeline) drawGraph(way path) string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for _, s := range p.Steps {
		opened, closed := "[", "]"
		switch s.Kind {
		case pipeline.Tools:
			opened, closed = "[[", "]]"
		case pipeline.Session:
			opened, closed = "{{", "}}"
		case pipeline.Parallel, pipeline.ForEach, pipeline.Nested:
			opened, closed = "[/", "/]"
		case pipeline.Approval:
			opened, closed = "([", "])"
		}
		label := s.Name + "<br/>" + string(s.Kind)
		if s.Agent != "" {
			label += " · " + s.Agent
		}
		if n := way.visits[s.Name]; n > 1 {
			label += fmt.Sprintf(" · %d×", n)
		}
		fmt.Fprintf(&b, "    %s%s%q%s\n", vertexID(s.Name), opened, label, closed)
	}
	for _, e := range p.listEdges() {
		from := "start((start))"
		if e.from != "" {
			from = vertexID(e.from)
		}
		fmt.Fprintf(&b, "    %s %s%s %s\n", from, e.arrow, e.label, vertexID(e.to))
	}
	return b.String()
}

// Arrows of edges.
const (
	ruleArrow    = "-->"
	agentArrow   = "-.->"
	insteadArrow = "==>"
	branchArrow  = "--o"
)

// edge is an arrow of the drawing. From is empty for the start.
type edge struct{ from, to, arrow, label string }

// listEdges lists the arrows in the order in which they are drawn, which is how Mermaid numbers them.
func (p Pipeline) listEdges() []edge {
	edges := []edge{{to: p.Start, arrow: ruleArrow}}
	for _, s := range p.Steps {
		for _, n := range s.Next {
			edges = append(edges, edge{s.Name, n.To, ruleArrow, n.When.arrowLabel()})
		}
		for _, to := range s.Destinations {
			edges = append(edges, edge{s.Name, to, agentArrow, ""})
		}
		for _, name := range slices.Sorted(maps.Keys(s.Branches)) {
			edges = append(edges, edge{s.Name, s.Branches[name], branchArrow, fmt.Sprintf("|%q|", name)})
		}
		if s.Each != "" {
			label := map[bool]string{true: `|"each item"|`, false: ""}[s.Kind == pipeline.ForEach]
			edges = append(edges, edge{s.Name, s.Each, branchArrow, label})
		}
		if s.FollowsConflict() && s.OnConflict != "" {
			edges = append(edges, edge{s.Name, s.OnConflict, ruleArrow, `|"conflict"|`})
		}
		if v := s.MaxVisits; v != nil && v.Then != "" {
			edges = append(edges, edge{s.Name, v.Then, insteadArrow, fmt.Sprintf(`|"after %d×"|`, v.Count)})
		}
	}
	return edges
}

func (c condition) arrowLabel() string {
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

// walkTrace walks each line of the run by itself: the first one and every branch.
func (p Pipeline) walkTrace(trace []pipeline.TraceEntry, at string) path {
	way := path{visits: map[string]int{}}
	lines, branches := map[string][]pipeline.TraceEntry{}, []string{""}
	for _, g := range trace {
		branch := string(g.Branch)
		if _, known := lines[branch]; !known && branch != "" {
			branches = append(branches, branch)
		}
		lines[branch] = append(lines[branch], g)
	}
	for _, branch := range branches {
		if branch == "" {
			p.walkLine(&way, lines[branch], at, "", ruleArrow)
			continue
		}
		parts := strings.Split(branch, "/") // the last two are the fork and the branch or item
		p.walkLine(&way, lines[branch], "", parts[max(0, len(parts)-2)], branchArrow)
	}
	return way
}

// walkLine keeps the stack of callers, because a return takes no arrow. An arrow leads from a step to the first one.
func (p Pipeline) walkLine(way *path, trace []pipeline.TraceEntry, at, from, arrow string) {
	var stack []string
	enter := func(from, to, arrow string) {
		way.visits[to]++
		way.taken = append(way.taken, edge{from: from, to: to, arrow: arrow})
	}
	for i, g := range trace {
		if i == 0 {
			enter(from, g.Step, arrow)
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
			p.followArrow(way, edge{from: g.Step, to: g.To, arrow: agentArrow})
		case g.Status == pipeline.Failed && next == g.Step: // the step was tried again
		case top >= 0 && stack[top] == next && g.Status != pipeline.Failed:
			stack = stack[:top]
		default:
			p.takeRuleArrow(way, g, next)
		}
	}
	if len(trace) == 0 && at != "" {
		enter(from, at, arrow)
	}
}

// takeRuleArrow takes the arrow of the first static rule that leads from an ended step to the entered one.
// The trace has only the beginning of a text, so that any pattern may have matched it.
func (p Pipeline) takeRuleArrow(way *path, g pipeline.TraceEntry, entered string) {
	s, _ := p.Step(g.Step)
	for _, b := range s.Next {
		if rule := b.Rule(); g.Fits(rule) && p.enteredStep(*way, rule.To) == entered {
			p.followArrow(way, edge{from: g.Step, to: rule.To, arrow: ruleArrow})
			return
		}
	}
	way.visits[entered]++
}

// enteredStep returns the step that the run enters for the destination to, after max_visits.
func (p Pipeline) enteredStep(way path, to string) string {
	for range p.Steps {
		s, _ := p.Step(to)
		if s.MaxVisits == nil || way.visits[to] < s.MaxVisits.Count {
			break
		}
		to = s.MaxVisits.Then
	}
	return to
}

// followArrow takes an arrow to a step, and the arrows to the steps that took its place.
func (p Pipeline) followArrow(way *path, e edge) {
	way.taken = append(way.taken, e)
	to := e.to
	for last := p.enteredStep(*way, to); to != last; {
		s, _ := p.Step(to)
		way.taken = append(way.taken, edge{from: to, to: s.MaxVisits.Then, arrow: insteadArrow})
		to = s.MaxVisits.Then
	}
	way.visits[to]++
}

func (w path) takenNumbers(edges []edge) []string {
	var numbers []string
	for i, e := range edges {
		e.label = ""
		if slices.Contains(w.taken, e) {
			numbers = append(numbers, strconv.Itoa(i))
		}
	}
	return numbers
}

// vertexID returns the identifier of a step in Mermaid, where words such as end are reserved.
func vertexID(step string) string {
	return "s_" + strings.NewReplacer("-", "_2d", "_", "_5f").Replace(step)
}
