"""Wide & Deep: the step of DLPerf's click-through-rate benchmark."""
