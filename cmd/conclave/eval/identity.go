package eval

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"conclave/engine/artifact"
)

// identity has the hashes of everything on which the outcomes of an evaluation depend.
func (s settings) identity() map[string]string {
	parts := maps.Clone(s.Others)
	if parts == nil {
		parts = map[string]string{}
	}
	parts["data"], parts["team"], parts["scorer"] = s.DataHash, s.Team, s.Scorer
	return parts
}

// agree refuses earlier outcomes in a place if a part of the identity has changed since.
func (s settings) agree(place string, was map[string]string) error {
	parts := s.identity()
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if hash, known := was[name]; known && hash != parts[name] {
			return fmt.Errorf("%s has outcomes with another %s; choose another --id", place, called(name))
		}
	}
	return nil
}

// called returns a part of the identity in words.
func called(part string) string {
	switch part {
	case "data":
		return "file of questions"
	case "team", "scorer", "grader":
		return part
	}
	return "team in the arm " + part
}

// claim reserves the ID of the evaluation in the bucket for its identity, because sessions with
// this ID are joined. Arms and a grader can be added later.
func (s settings) claim(ctx context.Context, store artifact.Store) error {
	was := map[string]string{}
	for name, hash := range s.identity() {
		key := fmt.Sprintf("evals/%s/%s.json", s.ID, name)
		err := artifact.CreateJSON(ctx, store, key, hash)
		if errors.Is(err, artifact.ErrExists) {
			was[name], err = artifact.ReadJSON[string](ctx, store, key)
		}
		if err != nil {
			return fmt.Errorf("reserve the ID %s: %w", s.ID, err)
		}
	}
	return s.agree("the evaluation "+s.ID+" of this bucket", was)
}
