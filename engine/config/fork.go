package config

import (
	"maps"
	"slices"
	"strings"

	"conclave/engine/pipeline"
)

// Forks reports whether the step runs branches, items or a nested pipeline.
func (s PipelineStep) Forks() bool {
	return s.Kind == pipeline.Parallel || s.Kind == pipeline.ForEach || s.Kind == pipeline.Nested
}

// Defaults of a for_each.
const (
	defaultAtOnce   = 8
	defaultMaxItems = 500
)

// MostItems returns how many items the step goes through at most.
func (s PipelineStep) MostItems() int {
	if s.MaxItems != nil {
		return *s.MaxItems
	}
	return defaultMaxItems
}

// itemSource is the list of a for_each: its own, or one in the output of a step.
type itemSource struct {
	List []any
	From string
	Path string // dotted; empty for the whole output
}

// ItemSource returns where the items of the step come from.
func (s PipelineStep) ItemSource() (of itemSource) {
	switch v := s.Items.(type) {
	case []any:
		of.List = v
	case map[string]any:
		of.From, _ = v["from"].(string)
		of.Path, _ = v["path"].(string)
	}
	return of
}

// failKey is the value of on_conflict, on_branch_failure and on_item_failure that fails the step.
const failKey = "fail"

// FollowsConflict reports whether a step or a rule follows a conflict of the step's branches, which else fails it.
func (s PipelineStep) FollowsConflict() bool {
	if s.OnConflict != "" {
		return s.OnConflict != failKey
	}
	return slices.ContainsFunc(s.Next, func(b branch) bool { return b.When.Conflict != nil && *b.When.Conflict })
}

// Fork sets the branches or items of the step in a node.
func (s PipelineStep) Fork(n *pipeline.Node) {
	for _, name := range slices.Sorted(maps.Keys(s.Branches)) {
		n.Branches = append(n.Branches, pipeline.Entrance{Name: name, Step: s.Branches[name]})
	}
	if n.Any = s.Join == "any"; s.OnConflict != failKey {
		n.OnConflict = s.OnConflict
	}
	if s.Kind == pipeline.Nested {
		n.Branches, n.Result = []pipeline.Entrance{{Name: "run", Step: s.Each}}, s.Result
	}
	n.StopAtFailure = s.OnBranchFailure == failKey || s.OnBranchFailure == "" && !n.Any
	if s.Kind != pipeline.ForEach {
		return
	}
	of := s.ItemSource()
	n.Items, n.Each, n.AtOnce = pipeline.Items{From: of.From, Count: len(of.List)}, s.Each, defaultAtOnce
	if s.AtOnce != nil {
		n.AtOnce = *s.AtOnce
	}
	n.StopAtFailure = s.OnItemFailure != "continue"
}

func (g *graphCheck) checkParallel(key string, s PipelineStep) {
	if len(s.Branches) == 0 {
		g.Report(key+".branches", "missing; name the branches and the step that each begins with, such as {security: %s}", s.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Branches)) {
		at := joinKey(key+".branches", name)
		if !agentID.MatchString(name) {
			g.Report(at, "%s is not the name of a branch: %s", quoteSafely(name), idForm)
		}
		g.checkEntrance(at, s.Branches[name])
	}
	g.checkOnConflict(key, s)
}

func (g *graphCheck) checkForEach(key string, s PipelineStep) {
	if s.Each == "" {
		g.Report(key+".step", "missing; name the step that each item begins with")
	} else {
		g.checkEntrance(key+".step", s.Each)
	}
	switch v := s.Items.(type) {
	case nil:
		g.Report(key+".items", "missing; give a list, or {from: STEP, path: files} for a list in the output of a step")
	case []any:
		if most := s.MostItems(); len(v) > most {
			g.Report(key+".items", "%d items are too many: max_items is %d", len(v), most)
		}
	case map[string]any:
		g.checkItemSource(key+".items", v)
	default:
		g.Report(key+".items", "is no list; give one, or {from: STEP, path: files} for a list in the output of a step")
	}
	g.checkOnConflict(key, s)
}

func (g *graphCheck) checkItemSource(key string, given map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, isText := given[name].(string); !isText || name != "from" && name != "path" {
			g.Report(joinKey(key, name), "has no meaning there; the items of a step's output are {from: STEP, path: files}")
		}
	}
	from, _ := given["from"].(string)
	of, ok := g.pipeline.Step(from)
	path, _ := given["path"].(string)
	switch {
	case from == "":
		g.Report(key+".from", "missing; name the step whose output has the list")
	case !ok:
		g.Name(key+".from", from, "a step", g.names)
	case !of.canLeave(splitPath(path)):
		g.Report(key+".path", "is no part of the output of %s; give that step a schema that has it, as output", from)
	}
}

func splitPath(dotted string) []string {
	if dotted == "" {
		return nil
	}
	return strings.Split(dotted, ".")
}

func (g *graphCheck) checkEntrance(key, to string) {
	if !slices.Contains(g.names, to) {
		g.Name(key, to, "a step", g.names)
	}
}

func (g *graphCheck) checkOnConflict(key string, s PipelineStep) {
	if s.OnConflict != "" && s.OnConflict != failKey && !slices.Contains(g.names, s.OnConflict) {
		g.Name(key+".on_conflict", s.OnConflict, "a step or fail", g.names)
	}
}

// way leads from a step to another on the same line; key is its place in the definition.
type way struct{ key, to string }

// waysFrom returns the ways on from a step that stay on its line.
func (g *graphCheck) waysFrom(name string) (ways []way) {
	for i, s := range g.pipeline.Steps {
		if s.Name != name {
			continue
		}
		key := itemKey("steps", i)
		for n, b := range s.Next {
			ways = append(ways, way{itemKey(key+".next", n) + ".to", b.To})
		}
		for n, to := range s.Destinations {
			ways = append(ways, way{itemKey(key+".destinations", n), to})
		}
		if s.MaxVisits != nil && s.MaxVisits.Then != "" {
			ways = append(ways, way{key + ".max_visits.then", s.MaxVisits.Then})
		}
		if s.FollowsConflict() && s.OnConflict != "" {
			ways = append(ways, way{key + ".on_conflict", s.OnConflict})
		}
	}
	return ways
}

// lineFrom returns the steps that the line from an entrance can reach, each with the way that reached it first.
func (g *graphCheck) lineFrom(entrance, key string) (steps []string, by map[string]way) {
	steps, by = []string{entrance}, map[string]way{entrance: {key, entrance}}
	for i := 0; i < len(steps); i++ {
		for _, w := range g.waysFrom(steps[i]) {
			if _, seen := by[w.to]; !seen {
				steps, by[w.to] = append(steps, w.to), w
			}
		}
	}
	return steps, by
}

// checkLines checks that no branch leads to a step of the line that it branches from, that forks are not nested too
// deep, and that items are named only within a for_each.
func (g *graphCheck) checkLines() {
	main, _ := g.lineFrom(g.pipeline.Start, "start")
	itemSteps := map[string]bool{}
	g.checkForks([][]string{main}, false, itemSteps, map[string]bool{})
	if g.pipeline.Finally != "" {
		closing, by := g.lineFrom(g.pipeline.Finally, "finally")
		for _, name := range closing {
			if slices.Contains(main, name) {
				g.Report(by[name].key, "leads to %s, which is a step of the run before its end; give the steps at the end names of their own", name)
				break
			}
		}
		g.checkForks([][]string{closing}, false, itemSteps, map[string]bool{})
	}
	for i, s := range g.pipeline.Steps {
		if !itemSteps[s.Name] {
			g.checkItemFields(itemKey("steps", i), s)
		}
	}
}

// maxLines bounds the branches that are checked, each as often as it is nested in another.
const maxLines = 2000

// checkForks checks the branches of the steps on the last of the lines, each of which branches from the one before.
func (g *graphCheck) checkForks(lines [][]string, inItem bool, itemSteps, seen map[string]bool) {
	for _, name := range lines[len(lines)-1] {
		s, ok := g.pipeline.Step(name)
		itemSteps[name] = itemSteps[name] || inItem
		if !ok || !s.Forks() || seen[name] {
			continue
		}
		key := itemKey("steps", slices.IndexFunc(g.pipeline.Steps, func(of PipelineStep) bool { return of.Name == name }))
		if depth := len(lines); depth > g.pipeline.Limits.MaxCallDepth {
			g.Report(key, "is nested %d deep; limits.max_call_depth is %d", depth, g.pipeline.Limits.MaxCallDepth)
			continue
		}
		seen[name] = true
		for _, branch := range slices.Sorted(maps.Keys(s.Branches)) {
			g.checkBranch(lines, name, s.Branches[branch], joinKey(key+".branches", branch), inItem, itemSteps, seen)
		}
		if s.Each != "" {
			g.checkBranch(lines, name, s.Each, key+".step", inItem || s.Kind == pipeline.ForEach, itemSteps, seen)
		}
		seen[name] = false
	}
}

func (g *graphCheck) checkBranch(lines [][]string, fork, entrance, key string, inItem bool, itemSteps, seen map[string]bool) {
	if g.lines++; g.lines > maxLines {
		if g.lines == maxLines+1 {
			g.Report(key, "the branches of branches are more than %d; nest fewer", maxLines)
		}
		return
	}
	steps, by := g.lineFrom(entrance, key)
	for _, line := range lines {
		for _, name := range steps {
			if slices.Contains(line, name) {
				g.Report(by[name].key, "leads from a branch of %s to %s, which is outside it; a branch ends where its line has no next, and a step that is also used outside needs another name", fork, name)
				return
			}
		}
	}
	g.checkForks(append(slices.Clone(lines), steps), inItem, itemSteps, seen)
}

// checkItemFields refuses the fields .item and .index in a step that is in no for_each.
func (g *graphCheck) checkItemFields(key string, s PipelineStep) {
	check := func(key, content string) {
		t, _ := pipeline.ReadTemplate(content) // checked before
		for _, f := range t.Fields() {
			if f.Path[0] == pipeline.ItemValue || f.Path[0] == pipeline.IndexValue {
				g.Report(key, "{{ %s }} has a value only in the steps of a for_each", f)
			}
		}
	}
	check(key+".prompt", s.Prompt)
	check(key+".question", s.Question)
	for _, name := range slices.Sorted(maps.Keys(s.Inputs)) {
		eachText(s.Inputs[name], func(content string) { check(joinKey(key+".inputs", name), content) })
	}
	for i, use := range s.Calls {
		eachText(use.Args, func(content string) { check(itemKey(key+".calls", i)+".args", content) })
	}
}
