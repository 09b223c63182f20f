// desktop stands in for the parts of a desktop that Xvfb lacks. window.py uses
// it.
//
// 	desktop drag FILE     shows a window out of which the file can be dragged
// 	desktop close WINDOW  asks a window to close, as the button in its frame does
#include <gdk/gdkx.h>
#include <gtk/gtk.h>
#include <stdlib.h>
#include <string.h>

static void give(GtkWidget *w, GdkDragContext *c, GtkSelectionData *data, guint info, guint time, gpointer uri) {
	gchar *uris[] = {uri, NULL};
	gtk_selection_data_set_uris(data, uris);
}

static int drag(const char *file) {
	GtkWidget *window = gtk_window_new(GTK_WINDOW_TOPLEVEL), *box = gtk_event_box_new();
	gtk_window_set_title(GTK_WINDOW(window), "files");
	gtk_window_set_default_size(GTK_WINDOW(window), 150, 100);
	gtk_window_move(GTK_WINDOW(window), 0, 0);
	gtk_container_add(GTK_CONTAINER(window), box);
	gtk_drag_source_set(box, GDK_BUTTON1_MASK, NULL, 0, GDK_ACTION_COPY);
	gtk_drag_source_add_uri_targets(box);
	g_signal_connect(box, "drag-data-get", G_CALLBACK(give), g_filename_to_uri(file, NULL, NULL));
	gtk_widget_show_all(window);
	gtk_main();
	return 0;
}

static int quit(Window window) {
	Display *display = gdk_x11_get_default_xdisplay();
	XEvent e = {.xclient = {.type = ClientMessage, .window = window, .format = 32}};
	e.xclient.message_type = XInternAtom(display, "WM_PROTOCOLS", False);
	e.xclient.data.l[0] = (long)XInternAtom(display, "WM_DELETE_WINDOW", False);
	XSendEvent(display, window, False, NoEventMask, &e);
	return !XSync(display, False);
}

int main(int argc, char **argv) {
	gtk_init(&argc, &argv);
	if (argc == 3 && !strcmp(argv[1], "drag")) return drag(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "close")) return quit(strtoul(argv[2], NULL, 0));
	return 2;
}
