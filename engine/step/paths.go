package step

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"conclave/engine/files/artifact"
)

// Paths rewrites paths of a step's workspace in the text of the step's answer.
type Paths struct {
	Own     string            // replaces the path of the workspace; empty makes the paths in it relative
	Peers   map[int]string    // replacements of peers/agent<N>, by N; paths of other peers become relative
	Files   artifact.Manifest // files of the answer; a path below /workspace is rewritten only if it names one of these files
	Scratch string            // directory of workspaces, if its name may be unusual
}

// sandboxWorkspace is the path of the workspace for commands in the sandbox's strictest confinement.
const sandboxWorkspace = "/workspace"

// anyDirectory matches the beginning of an absolute path.
const anyDirectory = "/(?:[^\\s\"'`<>()\\[\\]{}|,;:=/]+/)*"

// stepWorkspace matches the path of a running step's workspace, in any temporary directory
// and any attempt, up to the first name in it or to peers/agent<N>. It also matches
// relative paths of peers/agent<N>.
const stepWorkspace = `(?:(?:%s)conclave-step-[0-9]+/files\b|(?P<before1>^|` + boundary + `)(?P<sandbox>` + sandboxWorkspace + `))` +
	`(?:(?P<slash1>/)(?:peers/agent(?P<peer>[0-9]+)\b(?P<text>\.md\b)?|(?P<name>` + pathName + `))?)?` +
	`|(?P<before2>^|` + boundary + `)peers/agent(?P<relative>[0-9]+)(?P<slash2>/)`

// Character classes of stepWorkspace: a character before a path, and a name in one.
const (
	boundary = "[\\s\"'`(<\\[=:,]"
	pathName = "[^\\s\"'`<>()\\[\\]{}|,;:=/]+"
)

// HasPaths reports whether Rewrite may change a text.
func HasPaths(text string) bool {
	return strings.Contains(text, sandboxWorkspace+"/") || strings.Contains(text, "conclave-step-") || strings.Contains(text, "peers/agent")
}

// Rewrite replaces temporary paths with permanent ones. The longest match wins: a path below
// peers/agent<N> is replaced with the path of that peer's file. Relative paths of peers are
// replaced only for the peers in Peers.
func (p Paths) Rewrite(text string) string {
	if !HasPaths(text) {
		return text
	}
	var roots []string
	if p.Scratch != "" {
		roots = append(roots, p.Scratch)
	}
	pattern := regexp.MustCompile(fmt.Sprintf(stepWorkspace, RootPattern(anyDirectory, roots...)))
	var b strings.Builder
	last := 0
	for _, at := range pattern.FindAllStringSubmatchIndex(text, -1) {
		found := map[string]string{}
		for i, name := range pattern.SubexpNames() {
			if at[2*i] >= 0 {
				found[strings.TrimRight(name, "12")] += text[at[2*i]:at[2*i+1]]
			}
		}
		b.WriteString(text[last:at[0]] + found["before"] + p.permanentPath(found))
		last = at[1]
	}
	return b.String() + text[last:]
}

// permanentPath returns the permanent path for a match of pathPattern.
func (p Paths) permanentPath(found map[string]string) string {
	if number, err := strconv.Atoi(found["relative"]); err == nil {
		return p.peerPath(number, "") + found["slash"]
	}
	if number, err := strconv.Atoi(found["peer"]); err == nil {
		return p.peerPath(number, found["text"])
	}
	name := found["name"]
	switch {
	case found["sandbox"] != "" && !p.hasName(name): // another directory called /workspace
		return found["sandbox"] + found["slash"] + name
	case p.Own != "":
		return p.Own + found["slash"] + name
	case name != "":
		return name
	}
	return "./"
}

// peerPath returns the path of a peer's files, or of the file that has its long text.
func (p Paths) peerPath(number int, text string) string {
	if path := p.Peers[number]; path != "" && text == "" {
		return path
	}
	return fmt.Sprintf("peers/agent%d%s", number, text)
}

// hasName reports whether the answer has a file or directory of that name. The name may be
// followed by punctuation.
func (p Paths) hasName(name string) bool {
	for _, f := range p.Files.Files {
		top, _, _ := strings.Cut(f.Path, "/")
		if top == name || top == strings.TrimRight(name, ".!?") {
			return true
		}
	}
	return false
}

// RootPattern returns a pattern that matches one of the directories, with links resolved or not.
// Without directories it returns the given pattern otherwise.
func RootPattern(otherwise string, dirs ...string) string {
	var roots []string
	for _, dir := range dirs {
		resolved, err := filepath.EvalSymlinks(dir)
		if err != nil {
			resolved = dir
		}
		for _, root := range []string{resolved, dir} {
			if root = strings.TrimSuffix(root, "/"); root != "" {
				roots = append(roots, regexp.QuoteMeta(root)+"/")
			}
		}
	}
	return strings.Join(append(roots, otherwise), "|")
}
