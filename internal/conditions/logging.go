package conditions

import (
	"context"
	"log/slog"
	"slices"

	"github.com/sqlstore/sqlstore/status"
)

// errorTypes are the conditions that put acknowledged data or all writes at risk.
var errorTypes = []string{status.DatabaseUnavailable, status.NotDurable, status.NoSpace, status.Corrupt}

// logChanges logs how the conditions differ from those before.
func logChanges(log *slog.Logger, before, changed []status.Condition) {
	for i := range changed {
		c, was := &changed[i], status.Find(before, changed[i].Type)
		attrs := []any{"type", c.Type, "status", c.Status}
		switch {
		case c.Good() && was != nil && badLevel(was) > slog.LevelInfo,
			c.Good() && slices.Contains(status.Negative, c.Type):
			log.Info("condition recovered", append(attrs, "was", was.Reason,
				"after", c.LastTransitionTime.Sub(was.LastTransitionTime))...)
		case c.Good(): // for the first time: the start itself logs what it serves
			log.Debug("condition holds", append(attrs, "message", c.Message)...)
		default:
			attrs = append(attrs, "reason", c.Reason)
			if !loggedByAnother(c, changed) {
				attrs = append(attrs, "message", c.Message)
			}
			level, message := badLevel(c), "condition failing"
			switch {
			case c.Acknowledged:
				message = "condition failing, as acknowledged"
			case level < slog.LevelWarn:
				message = "condition changed"
			}
			log.Log(context.Background(), level, message, attrs...)
		}
	}
}

// badLevel returns the log level for a condition that is not good.
func badLevel(c *status.Condition) slog.Level {
	switch {
	case c.Status == status.Unknown, c.Reason == ReasonDatabaseUnreachable, c.Reason == ReasonStopping:
		return slog.LevelDebug // the server itself logs that it waits, or stops
	case c.Reason == ReasonStarting, c.Acknowledged:
		return slog.LevelInfo
	case slices.Contains(errorTypes, c.Type):
		return slog.LevelError
	}
	return slog.LevelWarn
}

// loggedByAnother reports whether c, a summary, repeats the message of a negative condition that changed at the same
// time.
func loggedByAnother(c *status.Condition, changed []status.Condition) bool {
	return slices.ContainsFunc(changed, func(other status.Condition) bool {
		return other.Type != c.Type && other.Message == c.Message && slices.Contains(status.Negative, other.Type)
	})
}
