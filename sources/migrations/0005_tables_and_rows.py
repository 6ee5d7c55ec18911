from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('sources', '0004_repository_looks'),
    ]

    operations = [
        migrations.AddField(
            model_name='backup',
            name='rows',
            field=models.BigIntegerField(help_text='Of all tables of a database.', null=True),
        ),
        migrations.AddField(
            model_name='backup',
            name='tables',
            field=models.BigIntegerField(help_text='Of a database.', null=True),
        ),
    ]
