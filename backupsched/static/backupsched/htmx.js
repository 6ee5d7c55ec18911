// htmx would write a style sheet for indicators into the page, which the page's policy refuses; none is used here
htmx.config.includeIndicatorStyles = false;
