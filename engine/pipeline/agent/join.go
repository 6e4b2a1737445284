package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"conclave/engine/files/artifact"
	"conclave/engine/pipeline"
	"conclave/engine/text"
)

// Merge is the end of a step that joins branches: their results, files and conflicts.
type Merge struct {
	Text      string
	Output    json.RawMessage // an object by branch, or a list in the items' order
	Workspace string          // hash of the manifest of the merged files
	Conflicts []string        // paths that branches changed differently
	Lost      int             // branches or items that failed
	Why       string          // why the step fails; empty if it does not
}

// List is a list that a for_each goes through, in the output of the step.
type List struct {
	For  string   // name of the for_each
	Path []string // of the list in the output; empty for the whole output
	Most int      // most items
}

// maxList bounds the list of a for_each, in bytes of JSON.
const maxList = 1 << 20

// countLists counts the items of the lists in an output, or says why one cannot be gone through.
func countLists(lists []List, output json.RawMessage) (counted []pipeline.List) {
	for _, l := range lists {
		if output == nil {
			continue
		}
		value := pipeline.Part(output, l.Path)
		c := pipeline.List{For: l.For}
		var items []json.RawMessage
		at := "its output"
		if len(l.Path) > 0 {
			at += " at " + strings.Join(l.Path, ".")
		}
		switch err := json.Unmarshal(value, &items); {
		case value == nil:
			c.Why = at + " is missing"
		case err != nil || bytes.Equal(bytes.TrimSpace(value), []byte("null")):
			c.Why = at + " is no list"
		case len(items) > l.Most:
			c.Why = fmt.Sprintf("%s has %d items, and max_items is %d", at, len(items), l.Most)
		case len(value) > maxList:
			c.Why = fmt.Sprintf("%s has %s, and a list of items has at most %s", at, text.Size(int64(len(value))), text.Size(maxList))
		default:
			c.Items = len(items)
		}
		counted = append(counted, c)
	}
	return counted
}

// JoinBranches merges the results and the files of the branches of a launch. named tells that a rule or
// on_conflict leads on from a conflict, so that it is no failure.
func (s Step) JoinBranches(ctx context.Context, store artifact.Store, named bool) (*Merge, error) {
	m := &Merge{}
	join := s.Launch.Join
	if join == nil {
		return nil, errors.New("the launch has no branches to join")
	}
	if err := s.joinResults(ctx, store, m); err != nil {
		return nil, err
	}
	if err := s.joinFiles(ctx, store, m); err != nil {
		return nil, err
	}
	if len(m.Conflicts) > 0 && !named {
		m.Why = fmt.Sprintf("branches changed the same files differently: %s; both sides are in %s", text.Truncate(strings.Join(m.Conflicts, ", "), 200), artifact.BranchesDir)
	}
	return m, nil
}

// maxJoinedText bounds the text of each branch in that of the join, in bytes.
const maxJoinedText = 8 << 10

// joinResults collects the outputs of the branches, or their texts, and builds the text of the join.
func (s Step) joinResults(ctx context.Context, store artifact.Store, m *Merge) error {
	var b strings.Builder
	list, object := []json.RawMessage{}, map[string]json.RawMessage{}
	for _, j := range s.Launch.Join.Branches {
		value, said := json.RawMessage("null"), ""
		if j.Final != nil {
			c, err := ReadCommit(ctx, store, s.Layout, *j.Final)
			if err != nil {
				return fmt.Errorf("read the result of branch %s: %w", j.Name, err)
			}
			said = c.Text
			if value = c.Output; value == nil {
				value, _ = json.Marshal(c.Text) // encoding of strings cannot fail
			}
		}
		if list, object[j.Name] = append(list, value), value; j.Status == pipeline.Failed {
			m.Lost++
		}
		said, _ = text.Head(said, maxJoinedText)
		if j.Status != pipeline.Completed {
			said = strings.TrimSpace(said + "\n[" + strings.TrimSuffix(string(j.Status)+": "+j.Reason, ": ") + "]")
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n\n", j.Name, said)
	}
	m.Text = strings.TrimSpace(b.String())
	var err error
	switch s.Launch.Kind {
	case pipeline.ForEach:
		m.Output, err = json.Marshal(list)
	case pipeline.Nested:
		m.Text, m.Output, err = s.nestedResult(ctx, store)
	case pipeline.Parallel, pipeline.Agent, pipeline.Tools, pipeline.Session, pipeline.Approval:
		m.Output, err = json.Marshal(object)
	}
	return err
}

// nestedResult returns the text and the output of the pipeline that is the step.
func (s Step) nestedResult(ctx context.Context, store artifact.Store) (said string, output json.RawMessage, err error) {
	for _, j := range s.Launch.Join.Branches {
		if j.Final == nil {
			continue
		}
		c, err := ReadCommit(ctx, store, s.Layout, *j.Final)
		if err != nil {
			return "", nil, fmt.Errorf("read the result of the nested pipeline: %w", err)
		}
		said, output = c.Text, c.Output
	}
	return said, output, nil
}

// joinFiles merges the workspaces of the branches that changed files.
func (s Step) joinFiles(ctx context.Context, store artifact.Store, m *Merge) error {
	m.Workspace = s.Launch.Workspace
	var sides []artifact.Side
	for _, j := range s.Launch.Join.Branches {
		if !j.Changed || j.Status == pipeline.Failed {
			continue
		}
		files, err := artifact.LoadManifest(ctx, store, s.Layout, j.Workspace)
		if err != nil {
			return fmt.Errorf("read the files of branch %s: %w", j.Name, err)
		}
		sides = append(sides, artifact.Side{Name: j.Name, Files: files})
	}
	if len(sides) == 0 {
		return nil
	}
	fork, err := artifact.LoadManifest(ctx, store, s.Layout, s.Launch.Workspace)
	if err != nil {
		return fmt.Errorf("read the files at the fork: %w", err)
	}
	merged, conflicts := artifact.MergeSides(fork, sides)
	if m.Workspace, err = merged.Store(ctx, store, s.Layout); err != nil {
		return fmt.Errorf("merge the files of the branches: %w", err)
	}
	m.Conflicts = conflicts
	return nil
}
