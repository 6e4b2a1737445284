package step

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"conclave/activities"
	"conclave/engine/artifact"
	"conclave/engine/base"
)

// startFile names the stored directories, under base/, that the steps of a session
// directory start from.
const startFile = base.Root + "start.json"

// startFrom stores the directories of --base and --context, or opens those of the first
// step that had any. All steps of a directory start from the same files.
func (s *runner) startFrom(ctx context.Context) error {
	recorded, err := artifact.ReadJSON[artifact.Material](ctx, s.store, startFile)
	if err != nil && !errors.Is(err, artifact.ErrNotFound) {
		return fmt.Errorf("read the files that the steps start from: %w", err)
	}
	given, err := s.material.Store(ctx, s.cli, s.store)
	if err != nil {
		return err
	}
	switch {
	case !given.Given():
	case !recorded.Given():
		if err := artifact.CreateJSON(ctx, s.store, startFile, given); err != nil {
			return fmt.Errorf("record the files that the steps start from: %w", err)
		}
		recorded = given
	case !reflect.DeepEqual(given, recorded):
		return fmt.Errorf("the steps of %s start from other files than --base and --context have now; leave the flags out, or name a new session directory", s.dir)
	}
	trees := base.NewTrees(s.store, "", 0)
	if s.layout, err = activities.Start(ctx, trees, s.layout, recorded); err != nil {
		return fmt.Errorf("open the base of %s: %w", s.dir, err)
	}
	if s.contexts, err = activities.Contexts(ctx, trees, recorded); err != nil {
		return fmt.Errorf("open the context of %s: %w", s.dir, err)
	}
	return nil
}
