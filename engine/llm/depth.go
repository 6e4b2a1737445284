package llm

import "context"

type depthKey struct{}

// WithDepth returns a context for the model calls of a session that answers an agent of
// another team; depth is the number of teams above it. Without WithDepth it is 0.
func WithDepth(ctx context.Context, depth int) context.Context {
	return context.WithValue(ctx, depthKey{}, depth)
}

// Depth returns the depth of the session that a model call belongs to.
func Depth(ctx context.Context) int {
	depth, _ := ctx.Value(depthKey{}).(int)
	return depth
}
