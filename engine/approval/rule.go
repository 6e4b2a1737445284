package approval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"conclave/engine/llm"
)

// Do decides about a call.
type Do string

// The values of Do, the strictest last.
const (
	Allow Do = "allow"
	Ask   Do = "ask"
	Deny  Do = "deny"
)

func (d Do) strictness() int { return slices.Index([]Do{"", Allow, Ask, Deny}, d) }

// Rule is one entry of `approvals`.
type Rule struct {
	Tool    string   `json:"tool" doc:"The tool, such as run_command or mcp__github__create_issue; a * at the end stands for any rest."`
	Matches string   `json:"matches,omitempty" doc:"A pattern (RE2) that is found in the canonical JSON of the arguments or, for run_command, in one of the commands that it names, such as ^git push. For allow the commands alone count."`
	Paths   []string `json:"paths,omitempty" doc:"Files that the call names, as in a .gitignore: a pattern without a / fits at any depth, and every pattern also what is below it."`
	Do      Do       `json:"do" enum:"allow,ask,deny" doc:"allow: it runs; ask: a person is asked first; deny: it is refused."`
	Reason  string   `json:"reason,omitempty" doc:"Why, for the person and the model."`
}

// Check returns the key at fault in a malformed rule, and the fault with its remedy.
func (r Rule) Check() (key string, fault error) {
	_, unread := regexp.Compile(r.Matches)
	star := strings.IndexByte(r.Tool, '*')
	switch {
	case strings.TrimSpace(r.Tool) == "":
		return "tool", fmt.Errorf("missing; it takes the name of a tool, such as %s, or a beginning and *", llm.RunCommand)
	case star >= 0 && star < len(r.Tool)-1:
		return "tool", fmt.Errorf("a * stands at the end alone; write %s*", r.Tool[:star])
	case r.Do == "":
		return "do", fmt.Errorf("missing; it takes allow, ask or deny")
	case unread != nil:
		return "matches", fmt.Errorf("not a pattern of RE2: %w; write a backslash before a character that stands for itself", unread)
	case slices.Contains(r.Paths, ""):
		return "paths", fmt.Errorf("an empty pattern; it takes one as in a .gitignore, such as secrets/")
	}
	return "", nil
}

// Covers reports whether every call that other fits also fits r, by their tools and the lack of other conditions.
func (r Rule) Covers(other Rule) bool {
	same := r.Matches == other.Matches && slices.Equal(r.Paths, other.Paths)
	return r.NamesTool(strings.TrimSuffix(other.Tool, "*")) && (strings.HasSuffix(r.Tool, "*") || !strings.HasSuffix(other.Tool, "*")) &&
		(r.Matches == "" && len(r.Paths) == 0 || same && r.Do == other.Do)
}

// Idle returns a sentence for each rule of a list that can never fit, if agents have these tools, and those whose
// names begin with one of the beginnings. Without tools every tool counts as there.
func Idle(key string, rules []Rule, tools, beginnings []string) (idle []string) {
	for i, r := range rules {
		why, begins := "", strings.TrimSuffix(r.Tool, "*")
		first := slices.IndexFunc(rules[:i], func(earlier Rule) bool { return earlier.Covers(r) })
		switch {
		case first >= 0:
			why = fmt.Sprintf("%s[%d] decides before it", key, first)
		case r.Tool == llm.RunCommand && len(r.Paths) > 0:
			why = "a command has no paths; give matches"
		case len(tools) > 0 && !slices.ContainsFunc(tools, r.NamesTool) && !slices.ContainsFunc(beginnings, func(b string) bool {
			return strings.HasPrefix(begins, b) || begins != r.Tool && strings.HasPrefix(b, begins)
		}):
			why = "no agent has a tool " + r.Tool + " that runs; they have " + strings.Join(slices.Compact(slices.Sorted(slices.Values(slices.Concat(tools, starred(beginnings))))), ", ")
		default:
			continue
		}
		idle = append(idle, fmt.Sprintf("%s[%d] can never fit: %s", key, i, why))
	}
	return idle
}

func starred(beginnings []string) (names []string) {
	for _, b := range beginnings {
		names = append(names, b+"*")
	}
	return names
}

// NamesTool reports whether the rule is about a tool.
func (r Rule) NamesTool(tool string) bool {
	beginning, open := strings.CutSuffix(r.Tool, "*")
	return tool == r.Tool || open && strings.HasPrefix(tool, beginning)
}

// Call is a tool call to decide about.
type Call struct {
	Tool      string
	Arguments string // JSON as the model wrote it
	ReadOnly  bool   // its server marks the tool so
}

// Decision is the decision of the rules about a call.
type Decision struct {
	Do      Do     `json:"do"`
	Place   string `json:"place"`             // the place of the rule, such as approvals[0] of the team; the reason of the default
	Rule    *Rule  `json:"rule"`              // the rule that decides; nil for the default
	Command string `json:"command,omitempty"` // the command in question of a line; … stands for a part that is not literal
	Unclear bool   `json:"unclear,omitempty"` // a word that names a program is not literal
}

// Gate has the rules for the calls of a step.
type Gate struct {
	lists      []list
	unconfined bool
}

type list struct {
	owner string
	rules []rule
}

type rule struct {
	Rule
	pattern *pattern         // nil without one
	paths   []*regexp.Regexp // of Paths
}

// NewGate returns the gate of an operator's rules and a team's, which have passed Check. Unconfined means that
// commands run without a sandbox.
func NewGate(operator, team []Rule, unconfined bool) Gate {
	g := Gate{unconfined: unconfined}
	for _, l := range []struct {
		owner string
		rules []Rule
	}{{"the worker", operator}, {"the team", team}} {
		if len(l.rules) == 0 {
			continue
		}
		compiled := list{owner: l.owner}
		for _, r := range l.rules {
			next := rule{Rule: r, pattern: compilePattern(r.Matches)}
			for _, glob := range r.Paths {
				next.paths = append(next.paths, compileGlob(glob))
			}
			compiled.rules = append(compiled.rules, next)
		}
		g.lists = append(g.lists, compiled)
	}
	return g
}

// HasRules reports whether a list exists.
func (g Gate) HasRules() bool { return len(g.lists) > 0 }

// Decide applies the rules to a call.
func (g Gate) Decide(c Call) Decision {
	if !g.HasRules() {
		return Decision{Do: Allow, Place: "there are no rules"}
	}
	data := canonical(c.Arguments)
	if c.Tool != llm.RunCommand {
		return g.decideOne(func(r rule) bool {
			return r.NamesTool(c.Tool) && r.pattern.mayMatch(data) && r.fitsPaths(c.Arguments)
		}, g.standard(c))
	}
	var arguments struct{ Command string }
	_ = json.Unmarshal([]byte(c.Arguments), &arguments) // the tool refuses others
	found := parseCommand(arguments.Command)
	strictest := Decision{}
	keep := func(d Decision, command string) {
		if d.Do.strictness() > strictest.Do.strictness() {
			strictest = d
			strictest.Command = strings.ReplaceAll(command, gap, "…")
		}
	}
	if found.unclear {
		d := g.strictestOf(c, g.standard(c))
		d.Unclear = true
		keep(d, arguments.Command)
	}
	for _, named := range found.commands {
		keep(g.decideOne(func(r rule) bool {
			return r.NamesTool(c.Tool) && len(r.Paths) == 0 && r.fitsCommand(named, data, found.altered)
		}, g.standard(c)), named.text)
	}
	if len(found.commands) == 0 && !found.unclear { // assignments, or nothing
		keep(g.decideOne(func(r rule) bool {
			return r.NamesTool(c.Tool) && len(r.Paths) == 0 && r.pattern.mayMatch(data)
		}, g.standard(c)), "")
	}
	return strictest
}

// standard applies rule 2.
func (g Gate) standard(c Call) Decision {
	switch {
	case c.Tool == llm.RunCommand && g.unconfined:
		return Decision{Do: Ask, Place: "no rule fits, and commands run without a sandbox"}
	case strings.HasPrefix(c.Tool, "mcp__") && !c.ReadOnly:
		return Decision{Do: Ask, Place: "no rule fits, and the server does not mark the tool read-only"}
	}
	return Decision{Do: Allow, Place: "no rule fits"}
}

// decideOne applies rule 1.
func (g Gate) decideOne(fits func(rule) bool, otherwise Decision) Decision {
	d := Decision{}
	for _, l := range g.lists {
		if i := slices.IndexFunc(l.rules, fits); i >= 0 && l.rules[i].Do.strictness() > d.Do.strictness() {
			d = l.decision(i)
		}
	}
	return cmp.Or(d, otherwise)
}

// strictestOf applies the beginning of rule 5.
func (g Gate) strictestOf(c Call, otherwise Decision) Decision {
	d := otherwise
	for _, l := range g.lists {
		for i, r := range l.rules {
			if r.NamesTool(c.Tool) && len(r.Paths) == 0 && r.Do.strictness() > d.Do.strictness() {
				d = l.decision(i)
			}
		}
	}
	return d
}

func (l list) decision(i int) Decision {
	return Decision{Do: l.rules[i].Do, Rule: &l.rules[i].Rule, Place: fmt.Sprintf("approvals[%d] of %s", i, l.owner)}
}

// fitsCommand applies rules 4 and 5 to a command that the call with these arguments names.
func (r rule) fitsCommand(c command, data string, altered bool) bool {
	switch {
	case r.pattern == nil:
		return true
	case r.Do == Allow:
		return !altered && !strings.Contains(c.assigned, gap) && r.pattern.MatchString(c.assigned)
	}
	return r.pattern.mayMatch(c.text) || r.pattern.mayMatch(c.base) || r.pattern.MatchString(data)
}

// fitsPaths applies the end of rule 3.
func (r rule) fitsPaths(arguments string) bool {
	if len(r.paths) == 0 {
		return true
	}
	named := pathsOf(arguments)
	fits := func(name string) bool {
		return slices.ContainsFunc(r.paths, func(p *regexp.Regexp) bool { return p.MatchString(name) })
	}
	if r.Do == Allow {
		return len(named) > 0 && !slices.ContainsFunc(named, func(name string) bool { return !fits(name) })
	}
	return slices.ContainsFunc(named, fits)
}

// pathsOf returns the paths among the arguments of a call: the texts under keys such as path, from and file_path.
func pathsOf(arguments string) (paths []string) {
	var collect func(key string, value any)
	collect = func(key string, value any) {
		switch value := value.(type) {
		case string:
			if pathKey.MatchString(key) {
				paths = append(paths, strings.TrimPrefix(path.Clean("/"+value), "/"))
			}
		case []any:
			for _, item := range value {
				collect(key, item)
			}
		case map[string]any:
			for name, item := range value {
				collect(name, item)
			}
		}
	}
	var value any
	_ = json.Unmarshal([]byte(arguments), &value) // the tool refuses others
	collect("", value)
	return paths
}

var pathKey = regexp.MustCompile(`(?i)^(from|to|source|destination|target)$|(path|file|filename|dir|directory)s?$`)

// compileGlob compiles a pattern of paths.
func compileGlob(glob string) *regexp.Regexp {
	glob = strings.TrimSuffix(glob, "/")
	anchor := "^"
	if !strings.Contains(strings.TrimPrefix(glob, "/"), "/") && !strings.HasPrefix(glob, "/") {
		anchor = "(^|/)"
	}
	expression := strings.NewReplacer(`\*\*/`, `(.*/)?`, `\*\*`, `.*`, `\*`, `[^/]*`, `\?`, `[^/]`).Replace(regexp.QuoteMeta(strings.TrimPrefix(glob, "/")))
	return regexp.MustCompile(anchor + expression + "(/|$)")
}

// canonical returns the canonical form of arguments, or the arguments themselves if they are no JSON.
func canonical(arguments string) string {
	if d, err := llm.ReadData([]byte(arguments)); err == nil {
		return d.Canonical
	}
	return arguments
}
